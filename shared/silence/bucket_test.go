package silence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// TestNoAnswerIsNoMissingBucket checks a bus without the bucket, and one whose bucket does
// not answer direct gets for now, as that of a stream without a leader.
func TestNoAnswerIsNoMissingBucket(t *testing.T) {
	b := bustest.Cluster(t, 1)
	s := b.Connect(bus.RoleGateway)
	keep := func(l silence.Silences) (silence.Silences, error) { return l, nil }

	if records, err := silence.Records(t.Context(), s); err != nil || len(records) != 0 {
		t.Errorf("Records without a bucket = %v, %v, want none", records, err)
	}
	if _, err := silence.ChangeSilences(t.Context(), s, keep); err == nil || !strings.Contains(err.Error(), "keeps no silences yet") {
		t.Errorf("ChangeSilences without a bucket = %v, want that the bus keeps no silences yet", err)
	}

	_, err := b.Connect(bus.RoleProvisioner).JS.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: bus.StreamSilences, Subjects: []string{"$KV." + bus.BucketSilences + ".>"}, AllowDirect: false,
	})
	if err != nil {
		t.Fatal(err)
	}
	if records, err := silence.Records(t.Context(), s); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("Records without an answer = %v, %v, want ErrUnreachable", records, err)
	}
	if _, err := silence.ChangeSilences(t.Context(), s, keep); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("ChangeSilences without an answer = %v, want ErrUnreachable", err)
	}
}
