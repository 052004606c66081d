package kubernetes_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
)

func TestQuota(t *testing.T) {
	q := kubernetes.NewQuota(kubernetes.Limits{PerSession: 2, Global: 3})
	acquire := func(has int) func() {
		t.Helper()
		release, err := q.Acquire(has)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	refused := func(has int, setting string) {
		t.Helper()
		_, err := q.Acquire(has)
		var limit *kubernetes.LimitError
		if !errors.As(err, &limit) || limit.Setting != setting || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), "events_unsubscribe") {
			t.Errorf("Acquire(%d): error = %v, want one that names %s and events_unsubscribe", has, err, setting)
		}
	}
	a := acquire(0)
	acquire(1)
	refused(2, "--max-subscriptions-per-session")
	acquire(0)
	refused(0, "--max-subscriptions-global")
	a()
	a() // has no effect
	acquire(0)
	refused(1, "--max-subscriptions-global")
}

// TestQuotaConcurrent: concurrent sessions acquire no more than the limit.
func TestQuotaConcurrent(t *testing.T) {
	q := kubernetes.NewQuota(kubernetes.Limits{PerSession: 10, Global: 50})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if release, err := q.Acquire(0); err == nil {
					if got := q.InUse(); got > 50 {
						t.Errorf("InUse = %d, want at most 50", got)
					}
					release()
				}
			}
		})
	}
	all.Wait()
	if q.InUse() != 0 {
		t.Errorf("InUse = %d after all were released, want 0", q.InUse())
	}
}

func TestIDs(t *testing.T) {
	a, b := kubernetes.NewID(), kubernetes.NewID()
	if a == b || !strings.HasPrefix(a, "sub-") || len(a) < 24 {
		t.Errorf("NewID = %q, then %q, want two different ones with the prefix sub-", a, b)
	}
}
