package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// serverLog writes the server's log to slog. It keeps the first fatal error, because the
// server's Start returns none, and the first failure to write the store, because
// publishers only see that no acknowledgement comes.
type serverLog struct {
	log *slog.Logger
	// store is the directory of the store.
	store string
	// fatal and fault hold the first of their kind, damage the first maxDamage.
	fatal  chan string
	damage chan damage
	fault  *atomic.Pointer[string]
}

// maxDamage is more than there are streams and consumers.
const maxDamage = 64

// damage is what the server logged about a file of its store.
type damage struct{ text, file string }

func (l *serverLog) Noticef(f string, v ...any) { l.log.Debug(fmt.Sprintf(f, v...)) }
func (l *serverLog) Debugf(string, ...any)      {}
func (l *serverLog) Tracef(string, ...any)      {}

func (l *serverLog) Errorf(f string, v ...any) {
	l.log.Error(fmt.Sprintf(f, v...))
	if len(v) == 0 || !strings.Contains(strings.ToLower(f), "critical write error") {
		return
	}
	text := fmt.Sprint(v[len(v)-1])
	l.fault.CompareAndSwap(nil, &text)
}

func (l *serverLog) Warnf(f string, v ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(f, "Websocket not configured with TLS") {
		level = slog.LevelDebug // it is reached through the proxy only, on loopback
	}
	text := strings.TrimSpace(fmt.Sprintf(f, v...))
	l.log.Log(context.Background(), level, text)
	for _, arg := range v {
		file, ok := arg.(string)
		if !ok || !strings.HasPrefix(file, l.store+string(filepath.Separator)) {
			continue
		}
		select {
		case l.damage <- damage{text, file}:
		default:
		}
	}
}

func (l *serverLog) Fatalf(f string, v ...any) {
	msg := fmt.Sprintf(f, v...)
	l.log.Error(msg)
	select {
	case l.fatal <- msg:
	default:
	}
}
