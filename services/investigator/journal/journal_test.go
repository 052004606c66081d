package journal_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB) (*journal.Journal, *bus.Session) {
	t.Helper()
	c := bustest.Start(t).Connect(bus.RoleInvestigator)
	return journal.New(c, bustest.Quiet()), c
}

// onEachBus runs a test on a server alone, and on a cluster of three.
func onEachBus(t *testing.T, test func(t *testing.T, connect func() *journal.Journal)) {
	t.Run("one server", func(t *testing.T) {
		b := bustest.Start(t)
		test(t, func() *journal.Journal { return journal.New(b.Connect(bus.RoleInvestigator), bustest.Quiet()) })
	})
	t.Run("cluster", func(t *testing.T) {
		r := bustest.Cluster(t, 3)
		r.Provision(bus.Layout{})
		r.Ready()
		test(t, func() *journal.Journal { return journal.New(r.Connect(bus.RoleInvestigator), bustest.Quiet()) })
	})
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func texts(msgs []journal.Message) []string {
	var list []string
	for _, m := range msgs {
		list = append(list, string(m.Data))
	}
	return list
}

func TestAppendAndRead(t *testing.T) {
	onEachBus(t, func(t *testing.T, connect func() *journal.Journal) {
		a, b := connect(), connect()
		ctx := t.Context()
		s, other := journal.NewSession(), journal.NewSession()
		first := must(a.Append(ctx, s, 0, []byte("1")))(t)
		must(b.Append(ctx, other, 0, []byte("x")))(t)
		second := must(b.Append(ctx, s, first, []byte("2")))(t)
		for _, after := range []uint64{0, first} {
			if _, err := a.Append(ctx, s, after, []byte("late")); !errors.Is(err, journal.ErrConflict) {
				t.Errorf("Append after %d = %v, want ErrConflict", after, err)
			}
		}
		for after, want := range map[uint64][]string{0: {"1", "2"}, first: {"2"}, second: nil} {
			got := must(a.Read(ctx, s, after))(t)
			if diff := cmp.Diff(want, texts(got)); diff != "" {
				t.Errorf("Read after %d (-want +got):\n%s", after, diff)
			}
		}
		last := must(a.Last(ctx, s))(t)
		if last.Seq != second || last.Session != s || string(last.Data) != "2" || time.Since(last.Time) > time.Minute {
			t.Errorf("Last = %+v, want message %d of %s", last, second, s)
		}
		if last, err := a.Last(ctx, journal.NewSession()); err != nil || last.Seq != 0 {
			t.Errorf("Last of an unknown session = %+v, %v, want none", last, err)
		}
		if _, err := a.Append(ctx, s, second, make([]byte, journal.MaxMessage+1)); !errors.Is(err, journal.ErrTooLarge) {
			t.Errorf("Append of too much = %v, want ErrTooLarge", err)
		}
		if _, err := a.Append(ctx, s, second, make([]byte, journal.MaxMessage)); err != nil {
			t.Errorf("Append of the largest message = %v, want nil", err)
		}
	})
}

// TestReadSeesAppends: a reader sees what was acknowledged to another process, on every server.
func TestReadSeesAppends(t *testing.T) {
	onEachBus(t, func(t *testing.T, connect func() *journal.Journal) {
		writer, readers := connect(), []*journal.Journal{connect(), connect(), connect()}
		s, last := journal.NewSession(), uint64(0)
		for i := range 100 {
			last = must(writer.Append(t.Context(), s, last, fmt.Append(nil, i)))(t)
			for _, r := range readers {
				if got := must(r.Read(t.Context(), s, 0))(t); len(got) != i+1 || got[i].Seq != last {
					t.Fatalf("Read = %d messages, want %d up to %d", len(got), i+1, last)
				}
			}
		}
	})
}

// TestOneOfTwoAppends: of several writers that append after the same message one succeeds.
func TestOneOfTwoAppends(t *testing.T) {
	onEachBus(t, func(t *testing.T, connect func() *journal.Journal) {
		writers := []*journal.Journal{connect(), connect(), connect()}
		s, last := journal.NewSession(), uint64(0)
		for range 20 {
			var wg sync.WaitGroup
			seqs, errs := make([]uint64, len(writers)), make([]error, len(writers))
			for i, w := range writers {
				wg.Go(func() { seqs[i], errs[i] = w.Append(t.Context(), s, last, []byte("x")) })
			}
			wg.Wait()
			won := 0
			for i, err := range errs {
				if err == nil {
					won, last = won+1, seqs[i]
				} else if !errors.Is(err, journal.ErrConflict) {
					t.Fatalf("Append = %v, want ErrConflict or nil", err)
				}
			}
			if won != 1 {
				t.Fatalf("%d appends after one message succeeded, want 1: %v", won, errs)
			}
		}
	})
}

// TestLostAcknowledgement: an append whose acknowledgement is lost is stored once, and is no
// conflict.
func TestLostAcknowledgement(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	proxy := bustest.NewProxy(t, strings.TrimPrefix(r.URLOf(0), "nats://"))
	cfg := r.Config(bus.RoleInvestigator)
	cfg.URL = proxy.URL()
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bustest.Eventually(t, "connection by the proxy", c.Connected)
	j, witness := journal.New(c, bustest.Quiet()), journal.New(r.Connect(bus.RoleInvestigator), bustest.Quiet())
	s := journal.NewSession()
	first := must(j.Append(t.Context(), s, 0, []byte("1")))(t)
	proxy.Silence() // the server hears us, and we don't hear it
	type result struct {
		seq uint64
		err error
	}
	appended := make(chan result, 1)
	go func() {
		seq, err := j.Append(t.Context(), s, first, []byte("2"))
		appended <- result{seq, err}
	}()
	bustest.Eventually(t, "the message is stored", func() bool {
		last, err := witness.Last(t.Context(), s)
		return err == nil && string(last.Data) == "2"
	})
	// Another process appends before the first one learns that it succeeded.
	second := must(witness.Last(t.Context(), s))(t).Seq
	must(witness.Append(t.Context(), s, second, []byte("3")))(t)
	proxy.Restore()
	got := <-appended
	if got.err == nil && got.seq != second {
		t.Errorf("Append = %d, want %d", got.seq, second)
	}
	if errors.Is(got.err, journal.ErrConflict) {
		t.Errorf("Append = %v, want its sequence or an error of the bus", got.err)
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, texts(must(witness.Read(t.Context(), s, 0))(t))); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestTexts(t *testing.T) {
	onEachBus(t, func(t *testing.T, connect func() *journal.Journal) {
		j, other := connect(), connect()
		a := must(j.Texts())(t)
		b := must(other.Texts())(t)
		s := journal.NewSession()
		for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 5 << 20} {
			text := bytes.Repeat([]byte{byte(size%250 + 1)}, size)
			digest := must(a.Put(t.Context(), s, text))(t)
			if again := must(b.Put(t.Context(), s, text))(t); again != digest {
				t.Errorf("Put again = %s, want %s", again, digest)
			}
			got, err := b.Get(t.Context(), s, digest)
			if err != nil || !bytes.Equal(got, text) {
				t.Errorf("Get of %d bytes = %d bytes, %v, want the same", size, len(got), err)
			}
			if _, err := a.Get(t.Context(), journal.NewSession(), digest); !errors.Is(err, journal.ErrMissing) {
				t.Errorf("Get of another session's text = %v, want ErrMissing", err)
			}
		}
		if _, err := a.Put(t.Context(), s, make([]byte, journal.MaxText+1)); !errors.Is(err, journal.ErrTooLarge) {
			t.Errorf("Put of too much = %v, want ErrTooLarge", err)
		}
	})
}

// TestDamagedText: a text with a missing or changed chunk is not returned.
func TestDamagedText(t *testing.T) {
	j, c := open(t)
	store := must(j.Texts())(t)
	s := journal.NewSession()
	digest := must(store.Put(t.Context(), s, make([]byte, 600<<10)))(t)
	if _, err := c.JS.Publish(t.Context(), bus.InvestigationTextSubject(s, digest, "1"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), s, digest); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Get of a text with a strange chunk = %v, want ErrDamaged", err)
	}
	if err := c.Purge(t.Context(), bus.StreamInvestigationTexts, bus.InvestigationTextSubject(s, digest, "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), s, digest); !errors.Is(err, journal.ErrMissing) {
		t.Errorf("Get of a text without a chunk = %v, want ErrMissing", err)
	}
	for _, digest := range []string{"", "*", strings.Repeat("A", 64), digest + "0"} {
		if _, err := store.Get(t.Context(), s, digest); !errors.Is(err, journal.ErrMissing) {
			t.Errorf("Get(%q) = %v, want ErrMissing", digest, err)
		}
	}
}

// TestDeleteOrphans: texts of sessions that were never stored are deleted once they are old.
func TestDeleteOrphans(t *testing.T) {
	j, _ := open(t)
	store := must(j.Texts())(t)
	now := time.Now()
	id := func(age time.Duration) string {
		return ulid.MustNew(ulid.Timestamp(now.Add(-age)), rand.Reader).String()
	}
	old, young, stored, known := id(26*time.Hour), id(24*time.Hour), id(48*time.Hour), id(49*time.Hour)
	digests := map[string]string{}
	for _, s := range []string{old, young, stored, known} {
		digests[s] = must(store.Put(t.Context(), s, make([]byte, 600<<10)))(t)
	}
	must(j.Append(t.Context(), stored, 0, []byte("1")))(t)
	has := func(s string) bool { return s == known }
	for _, want := range []int{1, 0} {
		if n, err := j.DeleteOrphans(t.Context(), now, has); n != want || err != nil {
			t.Errorf("DeleteOrphans = %d, %v, want %d", n, err, want)
		}
	}
	for s, digest := range digests {
		if _, err := store.Get(t.Context(), s, digest); errors.Is(err, journal.ErrMissing) != (s == old) {
			t.Errorf("Get of session %s = %v, want an error only for %s", s, err, old)
		}
	}
}

func TestDelete(t *testing.T) {
	j, _ := open(t)
	store := must(j.Texts())(t)
	kept, gone := journal.NewSession(), journal.NewSession()
	var digest string
	for _, s := range []string{kept, gone} {
		must(j.Append(t.Context(), s, 0, []byte("1")))(t)
		digest = must(store.Put(t.Context(), s, []byte("text")))(t)
		if err := j.Enqueue(t.Context(), s, 1); err != nil {
			t.Fatal(err)
		}
	}
	before := must(j.Usage(t.Context()))(t)
	for range 2 {
		if err := j.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	if after := must(j.Usage(t.Context()))(t); after != before/2 {
		t.Errorf("Usage after deleting one of two = %d, want half of %d", after, before)
	}
	if got := must(j.Read(t.Context(), gone, 0))(t); len(got) != 0 {
		t.Errorf("Read of a deleted session = %d messages, want none", len(got))
	}
	if _, err := store.Get(t.Context(), gone, digest); !errors.Is(err, journal.ErrMissing) {
		t.Errorf("Get of its text = %v, want ErrMissing", err)
	}
	if _, err := store.Get(t.Context(), kept, digest); err != nil {
		t.Errorf("Get of the other's text = %v, want nil", err)
	}
	if got := must(j.Queued(t.Context()))(t); len(got) != 1 || got[0].Session != kept {
		t.Errorf("Queued = %v, want %s", got, kept)
	}
	if err := j.Admit(t.Context(), before/2*2); err != nil {
		t.Errorf("Admit at half of the limit = %v, want nil", err)
	}
	if err := j.Admit(t.Context(), before/2); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Admit at the limit = %v, want ErrFull", err)
	}
}

func TestFollowAndChunks(t *testing.T) {
	j, c := open(t)
	a, b := journal.NewSession(), journal.NewSession()
	first := must(j.Append(t.Context(), a, 0, []byte("1")))(t)
	must(j.Append(t.Context(), b, 0, []byte("2")))(t)
	must(j.Append(t.Context(), a, first, []byte("3")))(t)
	var got []string
	var at bus.Position
	err := j.Follow(t.Context(), journal.FollowConfig{}, func(m journal.Message, p bus.Position) error {
		got, at = append(got, m.Session+string(m.Data)), p
		if len(got) == 3 {
			return bus.ErrStop
		}
		return nil
	})
	if diff := cmp.Diff([]string{a + "1", b + "2", a + "3"}, got); diff != "" || err != nil {
		t.Errorf("Follow = %v (-want +got):\n%s", err, diff)
	}
	if st := must(j.State(t.Context()))(t); st.End() != at {
		t.Errorf("State().End() = %v, want %v", st.End(), at)
	}
	chunks := make(chan string, 1)
	stop, err := j.SubscribeChunks(func(session string, data []byte) { chunks <- session + string(data) })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.NC.Flush(), j.PublishChunks(a, []byte("hel"))); err != nil {
		t.Fatal(err)
	}
	if got := <-chunks; got != a+"hel" {
		t.Errorf("chunk = %q, want %q", got, a+"hel")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestReserve(t *testing.T) {
	onEachBus(t, func(t *testing.T, connect func() *journal.Journal) {
		js := []*journal.Journal{connect(), connect(), connect()}
		const key = "a key: of * any > characters."
		owners, wins := map[string]bool{}, 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, j := range js {
			wg.Go(func() {
				owner, ok, err := j.Reserve(t.Context(), key, journal.NewSession(), 1)
				mu.Lock()
				defer mu.Unlock()
				if owners[owner] = true; ok {
					wins++
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(owners) != 1 || wins != 1 {
			t.Fatalf("owners %v, %d reservations, want one", owners, wins)
		}
		owner := must(js[0].Owner(t.Context(), key))(t)
		for _, j := range js {
			if got, ok, err := j.Reserve(t.Context(), key, owner, 1); got != owner || !ok || err != nil {
				t.Errorf("Reserve by its owner = %s, %t, %v, want %s, true", got, ok, err, owner)
			}
		}
		if err := js[1].Free(t.Context(), key, journal.NewSession(), 1); err != nil {
			t.Fatal(err)
		}
		if got := must(js[2].Owner(t.Context(), key))(t); got != owner {
			t.Errorf("owner after another session freed it = %s, want %s", got, owner)
		}
		if err := js[1].Free(t.Context(), key, owner, 1); err != nil {
			t.Fatal(err)
		}
		next := journal.NewSession()
		if got, ok, err := js[2].Reserve(t.Context(), key, next, 1); got != next || !ok || err != nil {
			t.Errorf("Reserve of a free key = %s, %t, %v, want %s, true", got, ok, err, next)
		}
	})
}

func TestRemember(t *testing.T) {
	j, _ := open(t)
	answer := []byte(`{"session_id":"a"}`)
	if err := j.Confirm(t.Context(), "k", "body"); err != nil {
		t.Errorf("Confirm of an unknown key = %v, want nil", err)
	}
	if got, known, err := j.Remember(t.Context(), "k", "body", answer); !bytes.Equal(got.Answer, answer) || known || got.Done || err != nil {
		t.Fatalf("Remember = %+v, %t, %v, want %s, new", got, known, err, answer)
	}
	if got, known, err := j.Remember(t.Context(), "k", "body", []byte(`{}`)); !bytes.Equal(got.Answer, answer) || !known || got.Done || err != nil {
		t.Errorf("Remember again = %+v, %t, %v, want %s, known", got, known, err, answer)
	}
	for range 2 {
		if err := j.Confirm(t.Context(), "k", "body"); err != nil {
			t.Errorf("Confirm = %v, want nil", err)
		}
	}
	if got, known, err := j.Recall(t.Context(), "k", "body"); !bytes.Equal(got.Answer, answer) || !known || !got.Done || err != nil {
		t.Errorf("Recall = %+v, %t, %v, want %s, known and done", got, known, err, answer)
	}
	if err := j.Confirm(t.Context(), "k", "other"); !errors.Is(err, journal.ErrOther) {
		t.Errorf("Confirm with another body = %v, want ErrOther", err)
	}
	if _, _, err := j.Remember(t.Context(), "k", "other", []byte(`{}`)); !errors.Is(err, journal.ErrOther) {
		t.Errorf("Remember with another body = %v, want ErrOther", err)
	}
	if _, known, err := j.Recall(t.Context(), "none", "body"); known || err != nil {
		t.Errorf("Recall of an unknown key = %t, %v, want none", known, err)
	}
}

// FuzzCheckSession: nothing but a ULID becomes part of a subject.
func FuzzCheckSession(f *testing.F) {
	for _, s := range []string{journal.NewSession(), "", "*", "a.b", "01JD000000000000000000000>", "81JD0000000000000000000000", strings.Repeat("i", 26), "01jd0000000000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
		want := len(s) == 26 && strings.Trim(s, alphabet) == "" && s[0] <= '7'
		err := journal.CheckSession(s)
		if (err == nil) != want {
			t.Errorf("CheckSession(%q) = %v, want valid: %t", s, err, want)
		}
		if err != nil && !errors.Is(err, journal.ErrSession) {
			t.Errorf("CheckSession(%q) = %v, want ErrSession", s, err)
		}
	})
}

// TestSessionIDs: every function refuses what is no session's id before it asks the bus.
func TestSessionIDs(t *testing.T) {
	j, _ := open(t)
	store := must(j.Texts())(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const bad = "*"
	for name, err := range map[string]error{
		"Append":        second(j.Append(ctx, bad, 0, nil)),
		"Read":          second(j.Read(ctx, bad, 0)),
		"Last":          second(j.Last(ctx, bad)),
		"Put":           second(store.Put(ctx, bad, nil)),
		"Get":           second(store.Get(ctx, bad, journal.Digest(nil))),
		"Delete":        j.Delete(ctx, bad),
		"Enqueue":       j.Enqueue(ctx, bad, 1),
		"PublishChunks": j.PublishChunks(bad, nil),
		"Reserve":       func() error { _, _, err := j.Reserve(ctx, "k", bad, 1); return err }(),
	} {
		if !errors.Is(err, journal.ErrSession) {
			t.Errorf("%s = %v, want ErrSession", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// BenchmarkAppend and BenchmarkRead500 report the percentiles of one call.
func BenchmarkAppend(b *testing.B) {
	j, _ := open(b)
	s, last := journal.NewSession(), uint64(0)
	data := bytes.Repeat([]byte("x"), 2<<10)
	report(b, func() { last = must(j.Append(b.Context(), s, last, data))(b) })
}

func BenchmarkRead500(b *testing.B) {
	j, _ := open(b)
	s, last := journal.NewSession(), uint64(0)
	for range 500 {
		last = must(j.Append(b.Context(), s, last, bytes.Repeat([]byte("x"), 2<<10)))(b)
	}
	report(b, func() {
		if got := must(j.Read(b.Context(), s, 0))(b); len(got) != 500 {
			b.Fatalf("Read = %d messages, want 500", len(got))
		}
	})
}

func report(b *testing.B, call func()) {
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		call()
		took = append(took, time.Since(begun))
	}
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
