package faults

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// processPosts is the number of posts while processes are killed, one after every killEvery
// posts.
const (
	processPosts = 300
	killEvery    = 10
)

// part is one process of an installation, which can be killed and started again at its
// old address.
type part struct {
	name, bin string
	args      []string
	*harness.Process
}

func (p *part) start(t *testing.T, dir string) {
	t.Helper()
	var err error
	if p.Process, err = harness.Start(p.bin, dir, nil, p.args...); err != nil {
		t.Fatal(err)
	}
}

// restart kills the process, as kill -9 does, and starts it again.
func (p *part) restart(t *testing.T, dir string) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	e2etest.CheckLog(t, p.Log)
	p.start(t, dir)
}

// TestKillEachProcess runs NATS, ingest and detector as processes, and kills one after
// the other during a stream of posts. Every accepted post raises one alert.
func TestKillEachProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nats := fmt.Sprintf("nats://127.0.0.1:%d", e2etest.FreePort(t))
	ingestAddr := fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t))
	parts := []*part{
		{name: "nats-server", bin: e2etest.NATSServer(t), args: []string{"-js", "-sd", filepath.Join(dir, "nats"), "-a", "127.0.0.1", "-p", nats[len("nats://127.0.0.1:"):]}},
		{name: "detector", bin: e2etest.Binary(t), args: []string{"detector", "--nats-url=" + nats, "--health-addr="}},
		{name: "ingest", bin: e2etest.Binary(t), args: []string{"ingest", "--nats-url=" + nats, "--ingest-addr=" + ingestAddr}},
	}
	for _, p := range parts {
		p.start(t, dir)
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Errorf("%s: %v\n%s", p.name, err, p.Log)
			}
			e2etest.CheckLog(t, p.Log)
		})
	}
	sys := &e2etest.System{Bus: &harness.Bus{Process: parts[2].Process, StateDir: dir}}
	sys.Bus.IngestURL = "http://" + ingestAddr
	sys.WaitReady(t)

	accepted, maybe := map[string]bool{}, map[string]bool{}
	for i := range processPosts {
		if i%killEvery == killEvery/2 {
			parts[i/killEvery%len(parts)].restart(t, dir)
		}
		path, body := crashPost(i)
		a, err := sys.Bus.Post(t.Context(), path, body)
		switch {
		case err == nil && a.Status == 200:
			accepted[e2etest.UniqueWord(i)] = true
		case err != nil || a.Status == 503:
			maybe[e2etest.UniqueWord(i)] = true // refused, or accepted without an answer
			sys.WaitReady(t)
		default:
			t.Fatalf("post %d: got status %d, want 200 or 503: %s", i, a.Status, a.Body)
		}
	}
	if len(accepted) < processPosts*3/4 {
		t.Fatalf("got %d of %d posts accepted, want at least 3 in 4", len(accepted), processPosts)
	}
	agent, err := harness.StartAgent(t.Context(), e2etest.Binary(t), dir, "after", "--nats-url="+nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := agent.Close(); err != nil {
			t.Errorf("gateway: %v\n%s", err, agent.Log)
		}
	})
	deliveredOnce(t, agent, accepted, maybe)
}
