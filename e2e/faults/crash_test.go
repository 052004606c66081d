package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// crashPosts is the number of posts of a crash test, crashKills the number of times that it
// kills the bus meanwhile.
const (
	crashPosts = 400
	crashKills = 40
)

// crashApps is the number of apps that send errors. As many errors of one app would be a
// storm.
const crashApps = 10

func crashApp(i int) string { return fmt.Sprint("web", i%crashApps) }

// crashPost returns the i-th post: CI results and new errors in turn. Each raises an alert
// of its own.
func crashPost(i int) (path string, body any) {
	if i%2 == 0 {
		return "/ci-result", map[string]any{"status": "failure", "commit": e2etest.UniqueWord(i)}
	}
	return "/v1/events", map[string]any{"kind": "log", "app": crashApp(i / 2), "log": map[string]any{"level": "error", "message": "no answer from " + e2etest.UniqueWord(i)}}
}

// TestKillsLoseAndRepeatNothing kills the whole bus again and again during a stream of
// posts. The accepted posts raise exactly one alert each.
func TestKillsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := harness.Up(t.Context(), e2etest.Binary(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	accepted := map[string]bool{}
	maybe := map[string]bool{} // no answer: it may be stored or not
	for i := range crashPosts {
		killed := make(chan error, 1)
		if i%(crashPosts/crashKills) == crashPosts/crashKills/2 {
			go func() { killed <- b.Kill() }() // during the post
		} else {
			killed <- nil
		}
		path, body := crashPost(i)
		a, err := b.Post(t.Context(), path, body)
		if err == nil && a.Status == 200 {
			accepted[e2etest.UniqueWord(i)] = true
		} else {
			maybe[e2etest.UniqueWord(i)] = true
		}
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.Done():
			e2etest.CheckLog(t, b.Log)
			if b, err = harness.Up(t.Context(), e2etest.Binary(t), dir); err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, b.Log)
		}
		e2etest.CheckLog(t, b.Log)
	})
	if len(accepted) < crashPosts*3/4 {
		t.Fatalf("got %d of %d posts accepted, want at least 3 in 4", len(accepted), crashPosts)
	}
	agent := e2etest.Join(t, b, "after")
	deliveredOnce(t, agent, accepted, maybe)
}

// deliveredOnce waits until an alert about every accepted word is in the history, and
// fails the test for each that is there twice or was never posted.
func deliveredOnce(t *testing.T, agent *harness.Agent, accepted, maybe map[string]bool) {
	t.Helper()
	var delivered map[string]int
	ok := harness.Poll(t.Context(), 30*time.Second, func() bool {
		delivered = history(t, agent)
		return len(missing(accepted, delivered)) == 0
	})
	for _, c := range slices.Sorted(maps.Keys(delivered)) {
		if delivered[c] > 1 {
			t.Errorf("alerts about %s: got %d, want 1", c, delivered[c])
		}
		if !accepted[c] && !maybe[c] {
			t.Errorf("got an alert about %s, want none: it was never posted", c)
		}
	}
	if !ok {
		t.Fatalf("got no alerts about %v, want one each: they were accepted", missing(accepted, delivered))
	}
}

func missing(accepted map[string]bool, delivered map[string]int) []string {
	var all []string
	for c := range accepted {
		if delivered[c] == 0 {
			all = append(all, c)
		}
	}
	slices.Sort(all)
	return all
}

// history counts the published alerts by their word.
func history(t *testing.T, agent *harness.Agent) map[string]int {
	t.Helper()
	counts := map[string]int{}
	apps := []string{"default"}
	for i := range crashApps {
		apps = append(apps, crashApp(i))
	}
	for _, app := range apps {
		entries, _, err := agent.ObserveAll(context.WithoutCancel(t.Context()), "alerts", map[string]any{"app": app, "limit": 200})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			var a alert.Alert
			if err := json.Unmarshal(entry, &a); err != nil {
				t.Fatalf("observe alerts: %v: %.200s", err, entry)
			}
			switch a.Category {
			case alert.CI:
				counts[fmt.Sprint(a.Context["commit"])]++
			case alert.Errors:
				counts[a.Title[strings.LastIndex(a.Title, " ")+1:]]++
			default: // spikes
			}
		}
	}
	return counts
}

// TestInboxAfterAKill kills the gateway. What it had delivered is not delivered again,
// and the next gateway delivers the rest.
func TestInboxAfterAKill(t *testing.T) {
	t.Parallel()
	sys := &e2etest.System{Bus: e2etest.Up(t)}
	var err error
	if sys.Agent, err = harness.StartAgent(t.Context(), e2etest.Binary(t), sys.Bus.StateDir, "e2e"); err != nil {
		t.Fatal(err)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "first"})
	sys.TakeAlerts(t, 1)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "second"})
	if err := sys.Agent.Kill(); err != nil {
		t.Fatal(err)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "third"})
	sys.Agent = e2etest.Join(t, sys.Bus, "e2e")
	var commits []string
	for _, a := range sys.TakeAlerts(t, 2) {
		commits = append(commits, fmt.Sprint(a.Context["commit"]))
	}
	slices.Sort(commits)
	if got := strings.Join(commits, " "); got != "second third" {
		t.Fatalf("the next gateway delivers %s, want \"second third\"", got)
	}
}
