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
	// desktopTimeout bounds one notification. D-Bus alone would wait for minutes for a
	// notification service that does not start.
	desktopTimeout = 5 * time.Second
	// maxDesktopText bounds the message in a notification, in characters.
	maxDesktopText = 400
)

// desktop shows notices as desktop notifications. The library accepts no context: while a
// notification hangs, the ones after it fail.
type desktop struct {
	goos   string
	show   func(title, body string) error
	runner serialRunner
}

func newDesktop() *desktop {
	return &desktop{goos: runtime.GOOS, show: show, runner: newSerialRunner()}
}

func (t *desktop) deliver(ctx context.Context, d delivery) error {
	title, body := desktopTexts(t.goos, d)
	return t.runner.run(ctx, func() error { return t.show(title, body) })
}

// setAppName sets the sender of the notifications, which the library keeps in a variable.
var setAppName = sync.OnceFunc(func() { beeep.AppName = "Tocsin" })

// errNoSession is returned if there is no desktop to show a notification on.
var errNoSession = errors.New("there is no desktop session: DBUS_SESSION_BUS_ADDRESS is not set")

func show(title, body string) error {
	if runtime.GOOS != "windows" && runtime.GOOS != "darwin" && !hasSessionBus() {
		return errNoSession // the library would start a D-Bus daemon and leave it running
	}
	setAppName()
	return beeep.Notify(title, body, "")
}

// hasSessionBus reports whether there is a D-Bus session bus where the library looks for it.
func hasSessionBus() bool {
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

// desktopTexts returns title and body of a notification, escaped so that the desktop of a
// system shows them literally.
func desktopTexts(system string, d delivery) (title, body string) {
	title = "Tocsin: " + sanitize.Cut(d.Context, 60)
	if d.Level != Info {
		title = "Tocsin " + string(d.Level) + ": " + sanitize.Cut(d.Context, 60)
	}
	body = sanitize.Cut(d.Message, maxDesktopText)
	if text := d.suppressedText(); text != "" {
		body += " (" + text + ")"
	}
	switch system {
	case "windows":
		title, body = toastEscaper.Replace(title), toastEscaper.Replace(body)
	case "darwin":
	default:
		body = markupEscaper.Replace(body) // bodies may have markup with links, titles may not
	}
	if strings.HasPrefix(body, "-") {
		body = " " + body // otherwise an option of notify-send or kdialog
	}
	return title, body
}

// toastEscaper removes what Windows acts on: a toast is XML with the text in CDATA, and if
// it can't be shown directly, the library puts it into a PowerShell script, in quotes that
// expand $(...).
var toastEscaper = strings.NewReplacer("]]>", "]] >", "$", "＄", "`", "'")
