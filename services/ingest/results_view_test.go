package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// fakeResults is a stream of results that fails from some deletion on.
type fakeResults struct {
	stored []bus.Message
	last   uint64 // sequence
	// left is how many deletions succeed; below 0 means all.
	left  int
	reads int
	err   error
	// during is called in the middle of a read.
	during func()
}

func (f *fakeResults) Read(ctx context.Context, _ string, _ uint64, limit int) ([]bus.Message, error) {
	f.reads++
	if f.during != nil {
		f.during()
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.stored[:min(limit, len(f.stored))], ctx.Err()
}

func (f *fakeResults) Delete(_ context.Context, _ string, seq uint64) error {
	if f.left == 0 {
		return errors.New("killed")
	}
	f.left--
	f.stored = slices.DeleteFunc(slices.Clone(f.stored), func(m bus.Message) bool { return m.Seq == seq })
	return nil
}

// write adds results such as "a:failure", where a is the name.
func (f *fakeResults) write(text string) {
	for _, word := range strings.Fields(text) {
		name, status, _ := strings.Cut(word, ":")
		f.last++
		f.stored = append(f.stored, bus.Message{
			Seq:  f.last,
			Data: fmt.Appendf(nil, `{"status":%q,"commit":"c1","name":%q}`, status, name),
		})
	}
}

// names returns the results of a stream, or only those that readers see.
func names(t *testing.T, msgs []bus.Message, seen bool) string {
	t.Helper()
	result := func(m bus.Message) ci.Result {
		r, err := ci.Decode(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if seen {
		msgs, _ = ci.Newest(msgs, result)
	}
	var got []string
	for _, m := range msgs {
		r := result(m)
		got = append(got, r.Name+":"+r.Status)
	}
	return strings.Join(got, " ")
}

// TestCrashLosesNoResult simulates a crash after each deletion, and checks that readers
// always see the same and that the next result prunes the rest.
func TestCrashLosesNoResult(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"a:failure", "a:failure"},
		{"a:failure a:failure", "a:failure"},
		{"a:failure b:error a:failure b:error b:error", "a:failure b:error"},
		{"a:failure a:success a:success a:failure a:failure", "a:failure a:success a:failure"},
		{"a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error j:error k:error l:error", "c:error d:error e:error f:error g:error h:error i:error j:error k:error l:error"},
	} {
		for kill := -1; kill < len(strings.Fields(c.written)); kill++ {
			f := &fakeResults{left: kill}
			f.write(c.written)
			newResultsView(quiet()).prune(t.Context(), f)
			if got := names(t, f.stored, true); got != c.want {
				t.Errorf("%s, killed at %d: %s, want %s", c.written, kill, got, c.want)
			}
			f.left = -1
			newResultsView(quiet()).prune(t.Context(), f)
			if got := names(t, f.stored, false); got != c.want {
				t.Errorf("%s, after the kill at %d: %s, want %s", c.written, kill, got, c.want)
			}
		}
	}
}

func TestPruneKeepsOtherMessages(t *testing.T) {
	f := &fakeResults{left: -1}
	f.write("a:failure a:failure")
	f.stored = slices.Insert(f.stored, 1, bus.Message{Seq: 7, Data: []byte("hello")})
	newResultsView(quiet()).prune(t.Context(), f)
	if len(f.stored) != 2 || f.stored[0].Seq != 7 {
		t.Errorf("stored = %v, want two from sequence 7 on", f.stored)
	}
}

// TestRecreatedStream checks that a recreated stream, which has other results at the same
// sequences, is read again.
func TestRecreatedStream(t *testing.T) {
	v, f := newResultsView(quiet()), &fakeResults{left: -1}
	f.write("a:failure")
	v.prune(t.Context(), f)
	f.stored, f.last = nil, 0
	f.write("b:failure a:failure")
	for i := range f.stored {
		f.stored[i].Time = arrival
	}
	v.prune(t.Context(), f)
	if got := names(t, f.stored, false); got != "b:failure a:failure" {
		t.Errorf("stored = %s, want %s", got, "b:failure a:failure")
	}
}

func TestPrunePausesAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, f := newResultsView(quiet()), &fakeResults{left: -1, err: bus.ErrUnreachable}
		f.write("a:failure a:failure")
		v.prune(t.Context(), f)
		f.err = nil
		v.prune(t.Context(), f)
		time.Sleep(prunePause - time.Nanosecond) // the bubble's clock
		v.prune(t.Context(), f)
		if f.reads != 1 || len(f.stored) != 2 {
			t.Errorf("within the pause: %d reads, %d stored, want 1 and 2", f.reads, len(f.stored))
		}
		time.Sleep(time.Nanosecond)
		v.prune(t.Context(), f)
		if f.reads != 2 || len(f.stored) != 1 {
			t.Errorf("after the pause: %d reads, %d stored, want 2 and 1", f.reads, len(f.stored))
		}
	})
}

// TestOneResultAtATime checks that the stream never holds more than one outdated result,
// even if many arrive at once.
func TestOneResultAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, f := newResultsView(quiet()), &fakeResults{left: -1}
		f.write("a:error b:error")
		most := 0
		f.during = func() {
			most = max(most, len(f.stored))
			time.Sleep(time.Millisecond)
		}
		var writing sync.WaitGroup
		for range 20 {
			writing.Go(func() {
				if err := v.put(t.Context(), f, func(context.Context) error { f.write("b:error"); return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		writing.Wait()
		if got := names(t, f.stored, false); got != "a:error b:error" || most != 3 || f.reads != 20 {
			t.Errorf("stored %s, at most %d at once, %d reads; want a:error b:error, 3 and 20", got, most, f.reads)
		}
	})
}

// TestWriteTimeout checks that a result waits at most writeTimeout for one whose write
// hangs.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, f := newResultsView(quiet()), &fakeResults{left: -1}
		hanging, release := make(chan struct{}), make(chan struct{})
		var first sync.WaitGroup
		first.Go(func() {
			err := v.put(t.Context(), f, func(context.Context) error { close(hanging); <-release; return bus.ErrUnacknowledged })
			if !errors.Is(err, bus.ErrUnacknowledged) || f.reads != 0 {
				t.Errorf("error %v after %d reads, want ErrUnacknowledged after 0", err, f.reads)
			}
		})
		<-hanging
		began := time.Now()
		err := v.put(t.Context(), f, func(context.Context) error { t.Error("two at once"); return nil })
		if took := time.Since(began); !errors.Is(err, errResultsBusy) || took != writeTimeout {
			t.Errorf("error %v after %s, want errResultsBusy after %s", err, took, writeTimeout)
		}
		close(release)
		first.Wait()
		f.write("a:error")
		if err := v.put(t.Context(), f, func(context.Context) error { return nil }); err != nil || f.reads != 1 {
			t.Errorf("error %v after %d reads, want none after 1", err, f.reads)
		}
	})
}

// TestSenderGone checks that the view gets the result of a sender that disconnected,
// because the log has it already.
func TestSenderGone(t *testing.T) {
	v, f := newResultsView(quiet()), &fakeResults{left: -1}
	f.write("a:failure")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := v.put(ctx, f, func(ctx context.Context) error { f.write("a:failure"); return ctx.Err() })
	if err != nil || len(f.stored) != 1 {
		t.Errorf("error %v, %d stored, want none and 1", err, len(f.stored))
	}
}

// ready starts an ingest service on dir, or joins the bus of cfg, and waits for it.
func ready(t *testing.T, cfg Config) (url string) {
	t.Helper()
	url, _ = start(t, cfg)
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })
	return url
}

// postResult posts a result such as a:failure.
func postResult(t *testing.T, url, commit, text string) {
	t.Helper()
	name, status, _ := strings.Cut(text, ":")
	body := fmt.Sprintf(`{"status":%q,"commit":%q,"name":%q}`, status, commit, name)
	if code, _, answer := send(t, "POST", url+pathCIResult, body); code != http.StatusOK {
		t.Errorf("%s: got %d %s, want 200", text, code, answer)
	}
}

// inStream returns the messages in the stream.
func inStream(t *testing.T, cfg bus.Config) []bus.Message {
	t.Helper()
	cfg.Name, cfg.Role, cfg.Logger = "test", bus.RoleIngest, quiet()
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bustest.Eventually(t, "connection", c.Connected)
	msgs, err := c.Read(t.Context(), bus.StreamCI, 1, pruneLimit)
	if err != nil {
		t.Fatal(err)
	}
	return msgs
}

func TestResultsOfOnePipeline(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, c := range []struct{ name, posted, want string }{
		{"failure, success, failure", "a:failure a:success a:failure", "a:failure a:success a:failure"},
		{"the same again", "a:failure a:failure a:success a:success a:success", "a:failure a:success"},
		{"amid others", "a:failure b:success a:failure", "b:success a:failure"},
		{"names that differ in case", "Build:failure build:failure Build:failure", "build:failure Build:failure"},
		{"names in Japanese", "ビルド:failure テスト:failure", "ビルド:failure テスト:failure"},
		{"names that differ at their end", long + "1:failure " + long + "2:failure", long + "1:failure " + long + "2:failure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := bustest.Start(t).Dir
			url := ready(t, Config{Bus: bus.Config{Dir: dir}})
			for _, text := range strings.Fields(c.posted) {
				postResult(t, url, "abc", text)
			}
			if got := names(t, inStream(t, bus.Config{Dir: dir}), false); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestResultIsUpdatedAfterRestart(t *testing.T) {
	b := bustest.Start(t)
	dir := b.Dir
	url := ready(t, Config{Bus: bus.Config{Dir: dir}})
	postResult(t, url, "abc", "a:failure")
	b.Restart()
	bustest.Eventually(t, "write", func() bool { status, _, _ := send(t, "POST", url+"/v1/events", logEvent); return status == 200 })
	postResult(t, url, "abc", "a:failure")
	if got := names(t, inStream(t, bus.Config{Dir: dir}), false); got != "a:failure" {
		t.Errorf("stored = %s, want %s", got, "a:failure")
	}
}

// TestUpdatesKeepOtherResults checks that one of ten pipelines that reports repeatedly does
// not push out the others.
func TestUpdatesKeepOtherResults(t *testing.T) {
	dir := bustest.Start(t).Dir
	url := ready(t, Config{Bus: bus.Config{Dir: dir}})
	for _, name := range strings.Fields("a b c d e f g h i j") {
		postResult(t, url, "abc", name+":error")
	}
	for range 12 {
		postResult(t, url, "abc", "j:error")
	}
	if got := names(t, inStream(t, bus.Config{Dir: dir}), false); got != "a:error b:error c:error d:error e:error f:error g:error h:error i:error j:error" {
		t.Errorf("stored = %s, want a to j", got)
	}
}

// TestConcurrentUpdatesKeepOtherResults checks the same for concurrent reports of one
// result.
func TestConcurrentUpdatesKeepOtherResults(t *testing.T) {
	const clients, posts = 32, 64
	dir := bustest.Start(t).Dir
	url := ready(t, Config{Bus: bus.Config{Dir: dir}})
	for _, name := range strings.Fields("a b c d e f g h i j") {
		postResult(t, url, "abc", name+":error")
	}
	work := make(chan struct{}, posts)
	for range posts {
		work <- struct{}{}
	}
	close(work)
	var posting sync.WaitGroup
	for range clients {
		posting.Go(func() {
			for range work {
				postResult(t, url, "abc", "k:error")
			}
		})
	}
	posting.Wait()
	if got := names(t, inStream(t, bus.Config{Dir: dir}), false); got != "b:error c:error d:error e:error f:error g:error h:error i:error j:error k:error" {
		t.Errorf("stored = %s, want b to k", got)
	}
	log := stored(t, dir, bus.RoleDetector, bus.StreamTelemetry, func(m []bus.Message) bool { return len(m) == 10+posts })
	if last := log[len(log)-1]; last.Subject != bus.SubjectIntakeCI {
		t.Errorf("the detector's log ends with %s, want %s", last.Subject, bus.SubjectIntakeCI)
	}
}

// TestTwoIngestServicesAtOnce checks that, in any order, two statuses of one key are two
// results, and the same status three times is one.
func TestTwoIngestServicesAtOnce(t *testing.T) {
	for name, texts := range map[string][]string{
		"two statuses":    {"a:failure", "a:success"},
		"the same status": {"a:failure", "a:failure", "a:failure"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bustest.Start(t).Dir
			urls := []string{ready(t, Config{Bus: bus.Config{Dir: dir}}), ready(t, Config{Bus: bus.Config{Dir: dir}})}
			different := slices.Compact(slices.Clone(texts))
			for round := range ci.MaxResults / len(different) {
				var posting sync.WaitGroup
				for i, text := range texts {
					posting.Go(func() { postResult(t, urls[i%2], fmt.Sprint("c", round), text) })
				}
				posting.Wait()
				count := map[string]int{}
				for _, m := range inStream(t, bus.Config{Dir: dir}) {
					count[m.Subject]++
				}
				for _, text := range different {
					_, status, _ := strings.Cut(text, ":")
					subject := bus.CIResultSubject(ci.SourceCustom, fmt.Sprint("c", round), "a", status)
					if count[subject] != 1 {
						t.Errorf("%s is stored %d times, want once", subject, count[subject])
					}
				}
			}
			if n := len(inStream(t, bus.Config{Dir: dir})); n != ci.MaxResults {
				t.Errorf("%d results are stored, want %d", n, ci.MaxResults)
			}
		})
	}
}

// TestBusForbidsPruning checks that results are stored without delay on a server that does
// not allow deletion.
func TestBusForbidsPruning(t *testing.T) {
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		NoAuthUser: "owner",
		Users: []*server.User{
			{Username: "owner", Password: "o"},
			{Username: "ingest", Password: "i", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Deny: []string{"$JS.API.DIRECT.>", "$JS.API.STREAM.MSG.>"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_ingest.>"}},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready after 10 s")
	}
	url := ready(t, Config{Bus: bus.Config{URL: strings.Replace(ns.ClientURL(), "nats://", "nats://ingest:i@", 1)}, Provision: true})
	lacksNothing(t, bus.Config{URL: ns.ClientURL()})
	began := time.Now()
	for range 5 {
		postResult(t, url, "abc", "a:failure")
	}
	if took := time.Since(began); took > prunePause/2 {
		t.Errorf("the answers took %s, want at most %s", took, prunePause/2)
	}
	msgs := inStream(t, bus.Config{URL: ns.ClientURL()})
	if len(msgs) != 5 || names(t, msgs, true) != "a:failure" {
		t.Errorf("stored = %s, want 5 messages that readers see as a:failure", names(t, msgs, false))
	}
}
