package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// serverLog writes the server's log lines to slog. It keeps the first fatal one,
// because Start itself returns no error, and the first that says that the store
// can't be written, because publishers then only see that nobody answers.
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

// damage is what the server said of a file of its store, and which it was.
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
		level = slog.LevelDebug // it is reached through our guard only, on loopback
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
