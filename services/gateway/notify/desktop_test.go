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
		held            int
		title, body     string
	}{
		{"linux", "done", Info, 0, "Tocsin: llm", "done"},
		{"linux", "done", Error, 2, "Tocsin error: llm", "done (2 more were held back)"},
		{"linux", `<a href="http://evil.example">x</a> & y`, Warn, 0, "Tocsin warn: llm", `&lt;a href="http://evil.example"&gt;x&lt;/a&gt; &amp; y`},
		{"linux", "--help", Info, 0, "Tocsin: llm", " --help"},
		{"darwin", "-execute calc & <b>", Info, 0, "Tocsin: llm", " -execute calc & <b>"},
		{"windows", "$(calc) `n ]]> <b>", Info, 0, "Tocsin: llm", "＄(calc) 'n ]] > <b>"},
	} {
		title, body := desktopTexts(c.system, delivery{Notice: Notice{Message: c.message, Level: c.level, Context: "llm"}, HeldBack: c.held})
		if title != c.title || body != c.body {
			t.Errorf("%s, %q: %q, %q", c.system, c.message, title, body)
		}
	}
	_, body := desktopTexts("darwin", delivery{Notice: Notice{Message: strings.Repeat("x", MaxMessage)}})
	if n := utf8.RuneCountInString(body); n != maxDesktop {
		t.Errorf("%d characters", n)
	}
}

// TestToastsHaveNothingToExpand: also not together with what was taken out.
func TestToastsHaveNothingToExpand(t *testing.T) {
	for _, message := range []string{"]]]>>", "]]" + "]]>" + ">", "$$(x)", "```", "]]>$(x)"} {
		title, body := desktopTexts("windows", delivery{Notice: Notice{Message: message, Context: message}})
		for _, text := range []string{title, body} {
			if strings.ContainsAny(text, "$`") || strings.Contains(text, "]]>") {
				t.Errorf("%q", text)
			}
		}
	}
}

// TestHangingDesktop is given up, and is no reason to try a second one beside it.
func TestHangingDesktop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var shown atomic.Int32
		d := &desktop{system: "linux", hung: newDetached(), show: func(string, string) error { shown.Add(1); <-release; return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), desktopWithin)
		defer cancel()
		begun := time.Now()
		if err := d.deliver(ctx, sample()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != desktopWithin {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if err := d.deliver(t.Context(), sample()); !errors.Is(err, errStuck) || shown.Load() != 1 {
			t.Errorf("%v", err)
		}
		close(release)
		synctest.Wait()
		if err := d.deliver(t.Context(), sample()); err != nil {
			t.Error(err)
		}
	})
}

// TestNoDesktop: it is said, and no bus is started for it.
func TestNoDesktop(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	if sessionBus() {
		t.Skip("this user has a session")
	}
	if err := newDesktop().deliver(t.Context(), sample()); !errors.Is(err, errNoSession) {
		t.Error(err)
	}
}
