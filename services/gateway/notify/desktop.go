package notify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gen2brain/beeep"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// desktopWithin is how long a desktop may take. D-Bus alone would wait for
	// minutes for a notification service that does not start.
	desktopWithin = 5 * time.Second
	// maxDesktop is how much of a message fits a notification, in characters.
	maxDesktop = 400
)

// desktop shows notifications. What shows them knows no context: one that hangs
// is waited for no longer, and until it is over the others fail.
type desktop struct {
	system string
	show   func(title, body string) error
	hung   detached
}

func newDesktop() *desktop { return &desktop{system: runtime.GOOS, show: show, hung: newDetached()} }

func (t *desktop) deliver(ctx context.Context, d delivery) error {
	title, body := desktopTexts(t.system, d)
	return t.hung.run(ctx, func() error { return t.show(title, body) })
}

// named says who sends the notifications. The library keeps that in a variable.
var named = sync.OnceFunc(func() { beeep.AppName = "Tocsin" })

// errNoSession says that there is no desktop to show anything on.
var errNoSession = errors.New("there is no desktop session: DBUS_SESSION_BUS_ADDRESS is not set")

func show(title, body string) error {
	if runtime.GOOS != "windows" && runtime.GOOS != "darwin" && !sessionBus() {
		return errNoSession // the library would start a bus of its own, and leave it behind
	}
	named()
	return beeep.Notify(title, body, "")
}

// sessionBus says whether there is a D-Bus session to connect to, where the
// library looks for it.
func sessionBus() bool {
	if address := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && address != "autolaunch:" {
		return true
	}
	dir := filepath.Join("/run/user", strconv.Itoa(os.Getuid()))
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// desktopTexts are title and body of a notification, as the desktop of a system
// shows them literally.
func desktopTexts(system string, d delivery) (title, body string) {
	title = "Tocsin: " + sanitize.Cut(d.Context, 60)
	if d.Level != Info {
		title = "Tocsin " + string(d.Level) + ": " + sanitize.Cut(d.Context, 60)
	}
	body = sanitize.Cut(d.Message, maxDesktop)
	if more := d.more(); more != "" {
		body += " (" + more + ")"
	}
	switch system {
	case "windows":
		title, body = literalToast.Replace(title), literalToast.Replace(body)
	case "darwin":
	default:
		body = literalMarkup.Replace(body) // bodies have markup, with links in it; titles have none
	}
	if strings.HasPrefix(body, "-") {
		body = " " + body // never an option of notify-send or kdialog
	}
	return title, body
}

// literalToast takes out what Windows would act on: a toast is XML with the text
// in CDATA, and where it can't be shown directly, it is put into a PowerShell
// script within quotes that expand $(...).
var literalToast = strings.NewReplacer("]]>", "]] >", "$", "＄", "`", "'")
