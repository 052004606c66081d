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
	take := func(has int) func() {
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
			t.Errorf("%v", err)
		}
	}
	a := take(0)
	take(1)
	refused(2, "--max-subscriptions-per-session")
	take(0)
	refused(0, "--max-subscriptions-global")
	a()
	a() // counts once
	take(0)
	refused(1, "--max-subscriptions-global")
}

// TestQuotaTogether: whoever comes at once, no more than the limit get one.
func TestQuotaTogether(t *testing.T) {
	q := kubernetes.NewQuota(kubernetes.Limits{PerSession: 10, Global: 50})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if release, err := q.Acquire(0); err == nil {
					if q.InUse() > 50 {
						t.Error("too many")
					}
					release()
				}
			}
		})
	}
	all.Wait()
	if q.InUse() != 0 {
		t.Errorf("%d are left", q.InUse())
	}
}

func TestIDs(t *testing.T) {
	a, b := kubernetes.NewID(), kubernetes.NewID()
	if a == b || !strings.HasPrefix(a, "sub-") || len(a) < 24 {
		t.Errorf("%s %s", a, b)
	}
}
