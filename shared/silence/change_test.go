package silence_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// TestChange: of changes at the same time none is lost, and one that is refused
// writes nothing.
func TestChange(t *testing.T) {
	b := bustest.Cluster(t, 1)
	b.Provision(bus.Layout{})
	c := b.Connect(bus.RoleGateway)
	if set, err := silence.Read(t.Context(), c); err != nil || len(set.Silences)+len(set.Acks) != 0 {
		t.Fatalf("Read of an empty bucket = %+v, %v, want nothing", set, err)
	}
	const writers = 4
	now := time.Now()
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			s := silence.Silence{ID: fmt.Sprint(i), App: fmt.Sprint("app", i), Created: now, Until: now.Add(time.Hour)}
			_, err := silence.ChangeSilences(t.Context(), c, func(l silence.Silences) (silence.Silences, error) {
				after, _, err := l.Add(s, now)
				return after, err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	refusal := errors.New("no")
	if _, err := silence.ChangeAcks(t.Context(), c, func(silence.Acks) (silence.Acks, error) { return nil, refusal }); !errors.Is(err, refusal) {
		t.Error(err)
	}
	set, err := silence.Read(t.Context(), c)
	if err != nil || len(set.Silences) != writers || len(set.Acks) != 0 {
		t.Errorf("Read = %+v, %v, want %d silences", set, err, writers)
	}
	documents, err := silence.Records(t.Context(), c)
	if err != nil || len(documents) != 1 || documents[0].Key != bus.KeySilences {
		t.Errorf("Records = %+v, %v, want the record of the silences", documents, err)
	}
}
