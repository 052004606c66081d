package kubewatch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/services/kubewatch/convert"
	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/services/kubewatch/objects"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestLoopFailsDuringACapture checks that an error ends the loop while a capture waits for
// the loop to take its logs.
func TestLoopFailsDuringACapture(t *testing.T) {
	l := &loop{
		leadership: &leadership{
			clusterWatch: &clusterWatch{process: &process{}},
			converter:    convert.New(redact.New()), steps: make(chan feed.Step, 1),
		},
		tracker: fault.New("c", "uid"), objects: objects.New(objects.Config{Logger: slog.New(slog.DiscardHandler)}),
		captured: make(chan capturedLogs), seen: newSeenEvents[eventKey](seenWindow, maxSeen),
		synced: objects.Kinds(), waited: waitBudget, waitedAt: time.Now(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.captures.Go(func() { <-ctx.Done() })
	// JSON has no such year.
	l.steps <- feed.Step{Event: &corev1.Event{LastTimestamp: metav1.NewTime(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))}}
	done := make(chan error, 1)
	go func() { done <- l.run(ctx) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("run of an event that can't be encoded = nil, want an error")
		}
	case <-time.After(5 * time.Second):
		t.Error("run has not returned within 5 s")
	}
	cancel()
	l.captures.Wait()
}
