package notify

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestDesktopTexts(t *testing.T) {
	for _, c := range []struct {
		system, message string
		level           Level
		suppressed      int
		title, body     string
	}{
		{"linux", "done", Info, 0, "Tocsin: llm", "done"},
		{"linux", "done", Error, 2, "Tocsin error: llm", "done (2 more not shown)"},
		{"linux", `<a href="http://evil.example">x</a> & y`, Warn, 0, "Tocsin warn: llm", `&lt;a href="http://evil.example"&gt;x&lt;/a&gt; &amp; y`},
		{"linux", "--help", Info, 0, "Tocsin: llm", " --help"},
		{"darwin", "-execute calc & <b>", Info, 0, "Tocsin: llm", " -execute calc & <b>"},
		{"windows", "$(calc) `n ]]> <b>", Info, 0, "Tocsin: llm", "＄(calc) 'n ]] > <b>"},
	} {
		title, body := desktopTexts(c.system, delivery{Notice: Notice{Message: c.message, Level: c.level, Context: "llm"}, Suppressed: c.suppressed})
		if title != c.title || body != c.body {
			t.Errorf("%s, %q: texts = %q, %q, want %q, %q", c.system, c.message, title, body, c.title, c.body)
		}
	}
	_, body := desktopTexts("darwin", delivery{Notice: Notice{Message: strings.Repeat("x", MaxMessage)}})
	if n := utf8.RuneCountInString(body); n != maxDesktopText {
		t.Errorf("body has %d characters, want %d", n, maxDesktopText)
	}
}

// TestToastsAreLiteral: removing characters creates no new sequence that Windows expands.
func TestToastsAreLiteral(t *testing.T) {
	for _, message := range []string{"]]]>>", "]]" + "]]>" + ">", "$$(x)", "```", "]]>$(x)"} {
		title, body := desktopTexts("windows", delivery{Notice: Notice{Message: message, Context: message}})
		for _, text := range []string{title, body} {
			if strings.ContainsAny(text, "$`") || strings.Contains(text, "]]>") {
				t.Errorf("text = %q, want no $, ` and ]]>", text)
			}
		}
	}
}

// TestDesktopHangs: a notification that hangs times out, and those after it fail until it
// returns.
func TestDesktopHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var shown atomic.Int32
		d := &desktop{goos: "linux", runner: newSerialRunner(), show: func(string, string) error { shown.Add(1); <-release; return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), desktopTimeout)
		defer cancel()
		begun := time.Now()
		if err := d.deliver(ctx, sample()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != desktopTimeout {
			t.Errorf("deliver to a hanging desktop = %v after %s, want %v after %s", err, time.Since(begun), context.DeadlineExceeded, desktopTimeout)
		}
		if err := d.deliver(t.Context(), sample()); !errors.Is(err, errStuck) || shown.Load() != 1 {
			t.Errorf("deliver while one hangs = %v, %d shown, want %v, 1 shown", err, shown.Load(), errStuck)
		}
		close(release)
		synctest.Wait()
		if err := d.deliver(t.Context(), sample()); err != nil {
			t.Errorf("deliver after it returned = %v, want nil", err)
		}
	})
}

// TestNoDesktop: without a session, deliver fails and starts no D-Bus daemon.
func TestNoDesktop(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	if hasSessionBus() {
		t.Skip("this user has a session")
	}
	if err := newDesktop().deliver(t.Context(), sample()); !errors.Is(err, errNoSession) {
		t.Errorf("deliver = %v, want %v", err, errNoSession)
	}
}
