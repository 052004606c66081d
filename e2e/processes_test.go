package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// processPosts is how many posts are made while processes are killed, one
// after every killEvery of them.
const (
	processPosts = 300
	killEvery    = 10
)

// part is one process of an installation, which can be killed and started
// again at its old address.
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

// restart kills the process, as kill -9 does, and starts it anew.
func (p *part) restart(t *testing.T, dir string) {
	t.Helper()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	noRace(t, p.Log)
	p.start(t, dir)
}

// TestKillEachProcess runs NATS, intake and detector as processes of their
// own, kills one after the other in the middle of a stream of posts, and
// expects every accepted post to be told once.
func TestKillEachProcess(t *testing.T) {
	dir := t.TempDir()
	nats := fmt.Sprintf("nats://127.0.0.1:%d", freePort(t))
	intake := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	parts := []*part{
		{name: "nats-server", bin: natsServer(t), args: []string{"-js", "-sd", filepath.Join(dir, "nats"), "-a", "127.0.0.1", "-p", nats[len("nats://127.0.0.1:"):]}},
		{name: "detector", bin: binary, args: []string{"detector", "--nats-url=" + nats, "--health-addr="}},
		{name: "ingest", bin: binary, args: []string{"ingest", "--nats-url=" + nats, "--ingest-addr=" + intake}},
	}
	for _, p := range parts {
		p.start(t, dir)
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Errorf("%s: %v\n%s", p.name, err, p.Log)
			}
			noRace(t, p.Log)
		})
	}
	w := &world{bus: &harness.Bus{Process: parts[2].Process, StateDir: dir}}
	w.bus.IngestURL = "http://" + intake
	w.ready(t)

	accepted, maybe := map[string]bool{}, map[string]bool{}
	for i := range processPosts {
		if i%killEvery == killEvery/2 {
			parts[i/killEvery%len(parts)].restart(t, dir)
		}
		path, body := crashPost(i)
		a, err := w.bus.Post(t.Context(), path, body)
		switch {
		case err == nil && a.Status == 200:
			accepted[subject(i)] = true
		case err != nil || a.Status == 503:
			maybe[subject(i)] = true // not taken, or taken without an answer
			w.ready(t)
		default:
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if len(accepted) < processPosts*3/4 {
		t.Fatalf("only %d of %d posts were accepted", len(accepted), processPosts)
	}
	agent, err := harness.StartAgent(t.Context(), binary, dir, "after", "--nats-url="+nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := agent.Close(); err != nil {
			t.Errorf("gateway: %v\n%s", err, agent.Log)
		}
	})
	toldOnce(t, agent, accepted, maybe)
}

// natsServer builds a static NATS server from its module.
func natsServer(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "nats-server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/nats-io/nats-server/v2")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v\n%s", err, out)
	}
	return bin
}
