package presence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/micro"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestEndpoints: a service answers its endpoints beside its health, by one of its instances, and
// Running finds it while it runs.
func TestEndpoints(t *testing.T) {
	b := bustest.Start(t)
	gateway := connect(t, b, bus.RoleGateway)
	running := func() bool {
		t.Helper()
		found, err := presence.Running(t.Context(), gateway, "investigator")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if running() {
		t.Fatal("Running = true without an investigator, want false")
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	answers := make(chan string, 10)
	done := make(chan error, 2)
	for _, id := range []string{"a", "b"} {
		c := connect(t, b, bus.RoleInvestigator)
		get := presence.Endpoint{Name: "get", Subject: bus.SubjectInvestigateGet, Handle: micro.HandlerFunc(func(r micro.Request) {
			answers <- string(r.Data())
			if err := bus.Answer(c, r.Reply(), map[string]int{"n": 1}, nil); err != nil {
				t.Error(err)
			}
		})}
		list := presence.Endpoint{Name: "list", Subject: bus.SubjectInvestigateList, Handle: micro.HandlerFunc(func(r micro.Request) {
			if err := bus.Answer(c, r.Reply(), nil, &bus.RefusedError{Code: "429", Text: "too many", RetryAfter: 7}); err != nil {
				t.Error(err)
			}
		})}
		cfg := presence.Config{Service: "investigator", ID: id, Version: "v1", Started: time.Now(), Logger: bustest.Quiet()}
		go func() {
			done <- presence.Serve(ctx, c, cfg, func() query.Health { return query.Health{OK: true} }, get, list)
		}()
	}
	collect(t, gateway, 2)
	if !running() {
		t.Error("Running = false with an investigator, want true")
	}
	got, err := bus.Ask(t.Context(), gateway, bus.SubjectInvestigateGet, "q")
	if err != nil || string(got) != `{"n":1}` {
		t.Errorf("the answer = %s, %v, want %s", got, err, `{"n":1}`)
	}
	_, err = bus.Ask(t.Context(), gateway, bus.SubjectInvestigateList, "q")
	var refused *bus.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("the answer = %v, want a refusal", err)
	}
	if diff := cmp.Diff(&bus.RefusedError{Code: "429", Text: "too many", RetryAfter: 7}, refused); diff != "" {
		t.Errorf("the refusal differs (-want +got):\n%s", diff)
	}
	cancel()
	for range 2 {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("Serve does not return")
		}
	}
	if len(answers) != 1 || <-answers != `"q"` {
		t.Errorf("the instances got %d requests, want one", len(answers)+1)
	}
	bustest.Eventually(t, "the end of the investigators", func() bool { return !running() })
}
