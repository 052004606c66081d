package notify

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// notificationService stands for a desktop's notification service.
type notificationService struct{ shown chan [2]string }

// Notify implements org.freedesktop.Notifications.
func (s notificationService) Notify(_ string, _ uint32, _, title, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	s.shown <- [2]string{title, body}
	return 1, nil
}

// TestDesktopOverDBus shows a notification through the library and a D-Bus daemon of the
// test. It needs dbus-daemon.
func TestDesktopOverDBus(t *testing.T) {
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("there is no dbus-daemon")
	}
	cmd := exec.Command(daemon, "--session", "--nofork", "--nopidfile", "--print-address", "--address=unix:dir="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	service, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close() })
	s := notificationService{make(chan [2]string, 1)}
	const name = "org.freedesktop.Notifications"
	if err := service.Export(s, "/org/freedesktop/Notifications", name); err != nil {
		t.Fatal(err)
	}
	if _, err := service.RequestName(name, dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}

	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	t.Cleanup(func() { // the library keeps its connection
		if kept, err := dbus.SessionBus(); err == nil {
			_ = kept.Close()
		}
	})
	if err := newDesktop().deliver(t.Context(), delivery{Notice: Notice{Message: "<b>done</b>", Level: Warn, Context: "deploy"}}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-s.shown:
		if want := [2]string{"Tocsin warn: deploy", "&lt;b&gt;done&lt;/b&gt;"}; got != want {
			t.Errorf("notification = %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Error("no notification within 20 s")
	}
}
