package finding_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestOpen(t *testing.T) {
	var open finding.Open
	is := func(id string) {
		t.Helper()
		var w snapshot.Writer
		open.Save(&w)
		r := snapshot.NewReader(w.Bytes())
		open = finding.Restore(r)
		if err := r.Close(); err != nil || open.ID() != id {
			t.Errorf("%q is open, want %q; %v", open.ID(), id, err)
		}
	}
	is("")
	begin := finding.New(alert.Alert{Severity: alert.Warning}, &open)
	is("") // it was not told yet
	begin.Told("a")
	is("a")
	if open.Worse(alert.Warning) || open.Worse(alert.Error) || !open.Worse(alert.Info) {
		t.Error("a warning is worse than what is less severe")
	}
	finding.New(alert.Alert{Severity: alert.Info}, &open).Told("b")
	is("b")
	finding.New(alert.Alert{Severity: alert.Info}, nil).Told("c")
	is("b")
	finding.New(alert.Alert{Resolves: "b"}, &open).Told("d")
	is("")
}

func TestRestoreRefuses(t *testing.T) {
	for _, rank := range []int{0, 4} {
		var w snapshot.Writer
		w.String("id")
		w.Len(rank)
		r := snapshot.NewReader(w.Bytes())
		if finding.Restore(r); !errors.Is(r.Close(), snapshot.ErrDamaged) {
			t.Errorf("rank %d: %v", rank, r.Close())
		}
	}
}

func TestBounded(t *testing.T) {
	short := []byte("ci:custom:abc:build:failure:1")
	if got := finding.Bounded(short); !bytes.Equal(got, short) {
		t.Errorf("%s", got)
	}
	a, b := finding.Bounded([]byte(strings.Repeat("ä", 1000)+"a")), finding.Bounded([]byte(strings.Repeat("ä", 1000)+"b"))
	if bytes.Equal(a, b) || len(a) > finding.MaxKey || !bytes.Equal(a, bytes.ToValidUTF8(a, nil)) {
		t.Errorf("%d bytes: %s, %s", len(a), a, b)
	}
	if again := finding.Bounded(bytes.Clone(a)); !bytes.Equal(again, a) {
		t.Errorf("bounded again: %s", again)
	}
}
