package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logged is what a logger wrote: level, message and attributes, without the time.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logged) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSuffix(l.buf.String(), "\n")
	l.buf.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func repeatsInto(w *logged) *slog.Logger {
	return slog.New(newRepeatHandler(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
}

func wrote(t *testing.T, w *logged, when string, want ...string) {
	t.Helper()
	if got := w.take(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRepeats plays what a process logs against what is written, and when.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w logged
		log := repeatsInto(&w)
		const warning = `level=WARN msg="the bus is unreachable" because=refused`
		say := func(n int) {
			for range n {
				log.Warn("the bus is unreachable", "because", "refused")
			}
		}
		say(1)
		wrote(t, &w, "at once", warning)
		say(3)
		time.Sleep(59 * time.Second)
		say(1)
		wrote(t, &w, "within the minute")
		time.Sleep(time.Second)
		synctest.Wait()
		wrote(t, &w, "at its end", warning+" repeated=4")
		say(2)
		wrote(t, &w, "in the next minute")
		time.Sleep(time.Minute)
		synctest.Wait()
		wrote(t, &w, "at the end of the next", warning+" repeated=2")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		wrote(t, &w, "when it has stopped")
		say(1)
		wrote(t, &w, "after a pause", warning)

		// Two lines at different times: each has a minute of its own.
		time.Sleep(20 * time.Second)
		log.Error("a bug", "path", "/a")
		wrote(t, &w, "another line", `level=ERROR msg="a bug" path=/a`)
		log.Error("a bug", "path", "/a")
		say(1)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		wrote(t, &w, "the end of the first's minute", warning+" repeated=1")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		wrote(t, &w, "the end of the second's", `level=ERROR msg="a bug" path=/a repeated=1`)
		time.Sleep(time.Hour)
	})
}

func TestRepeatsTellLinesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w logged
		log := repeatsInto(&w)
		for range 2 { // each is written once
			log.Warn("a")
			log.Warn("b")
			log.Error("a")
			log.Warn("a", "x", 1)
			log.Warn("a", "x", 2)
			log.With("component", "ingest").Warn("a")
			log.WithGroup("g").Warn("a", "x", 1)
		}
		wrote(t, &w, "different lines",
			"level=WARN msg=a", "level=WARN msg=b", "level=ERROR msg=a", "level=WARN msg=a x=1", "level=WARN msg=a x=2",
			"level=WARN msg=a component=ingest", "level=WARN msg=a g.x=1")
		for range 3 {
			log.Info("as often as it comes")
		}
		wrote(t, &w, "less severe", "level=INFO msg=\"as often as it comes\"", "level=INFO msg=\"as often as it comes\"", "level=INFO msg=\"as often as it comes\"")
		FlushLog(log)
		if got := w.take(); len(got) != 7 {
			t.Errorf("at the end of the process: got %q, want the seven counts", got)
		}
		FlushLog(log)
		wrote(t, &w, "twice")
	})
}

// TestRepeatsAreBounded: neither attributes nor messages from outside
// can fill a disk.
func TestRepeatsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w logged
		log := repeatsInto(&w)
		for i := range 10_000 {
			log.Warn("skipped what is no alert", "subject", fmt.Sprintf("live.alerts.%d", i))
		}
		if got := w.take(); len(got) != maxVariants {
			t.Errorf("attributes: got %d lines, want %d", len(got), maxVariants)
		}
		for i := range 10_000 {
			log.Error(fmt.Sprintf("127.0.0.1:%d - cid:%d - authentication error", i, i))
		}
		if got := w.take(); len(got) != maxVariants {
			t.Errorf("numbers in the message: got %d lines, want %d", len(got), maxVariants)
		}
		time.Sleep(repeatEvery)
		synctest.Wait()
		wrote(t, &w, "the minute's end, in either order", inOrder(&w,
			`level=WARN msg="skipped what is no alert" subject=live.alerts.9999 similar=9995`,
			`level=ERROR msg="127.0.0.1:9999 - cid:9999 - authentication error" similar=9995`)...)
		time.Sleep(2 * repeatEvery)

		for i := range 10_000 {
			log.Warn("message " + letters(i))
		}
		if got := w.take(); len(got) != maxRepeats {
			t.Errorf("messages: got %d lines, want %d", len(got), maxRepeats)
		}
		h, ok := log.Handler().(*repeatHandler)
		if !ok || len(h.lines) > maxRepeats+1 || len(h.variants) > maxRepeats {
			t.Fatalf("%d lines and %d messages are kept, want bounded numbers", len(h.lines), len(h.variants))
		}
		time.Sleep(repeatEvery)
		synctest.Wait()
		wrote(t, &w, "the minute's end", `level=WARN msg="message `+letters(9999)+`" similar=9744`)
		time.Sleep(2 * repeatEvery)
		log.Warn("all of it is forgotten")
		if len(h.lines) != 1 || len(h.variants) != 1 || h.overflow != nil {
			t.Errorf("after a pause: %d lines, %d messages and %v are kept, want the newest alone", len(h.lines), len(h.variants), h.overflow)
		}
	})
}

// inOrder puts the wanted lines into the order in which they were written.
func inOrder(w *logged, want ...string) []string {
	if !strings.HasPrefix(w.String(), want[0]) {
		want[0], want[1] = want[1], want[0]
	}
	return want
}

// letters writes a number without digits.
func letters(n int) string {
	return string([]byte{byte('a' + n/676%26), byte('a' + n/26%26), byte('a' + n%26)}) + strings.Repeat("z", n/17576)
}

func BenchmarkRepeats(b *testing.B) {
	log := slog.New(newRepeatHandler(slog.NewTextHandler(&logged{}, nil)))
	for i := range b.N {
		log.Warn("skipped what is no alert of the stream", "subject", i)
	}
}
