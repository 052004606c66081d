package silence_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// TestInto: each document has its place in the set, and what another version has
// written changes nothing.
func TestInto(t *testing.T) {
	now := time.Now()
	list, _, err := silence.Silences(nil).Add(silence.Silence{ID: "a", App: "web", Created: now, Until: now.Add(time.Hour)}, now)
	if err != nil {
		t.Fatal(err)
	}
	acks := silence.Acks(nil).Add(silence.Acknowledge(alert.Alert{ID: "b", App: "web", DedupKey: "k", Severity: alert.Error, Timestamp: now}, "me", now), now)
	listData, err := list.Encode()
	if err != nil {
		t.Fatal(err)
	}
	acksData, err := acks.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var set silence.Set
	for _, tt := range []struct {
		key            string
		data           []byte
		fails          bool
		silences, acks int
	}{
		{bus.KeyAcks, acksData, false, 0, 1},
		{bus.KeySilences, listData, false, 1, 1},
		{bus.KeySilences, []byte("nonsense"), true, 1, 1},
		{bus.KeyAcks, []byte("nonsense"), true, 1, 1},
		{"other", listData, false, 1, 1},
		{"other", nil, false, 1, 1},
	} {
		d := silence.RecordOf(bus.Message{Subject: "$KV." + bus.BucketSilences + "." + tt.key, Seq: 7, Data: tt.data})
		if d.Key != tt.key || d.Revision != 7 {
			t.Fatalf("RecordOf = %+v, want key %s and revision 7", d, tt.key)
		}
		if err := d.Apply(&set); (err != nil) != tt.fails {
			t.Errorf("Apply of %s = %v, want an error: %t", tt.key, err, tt.fails)
		}
		if len(set.Silences) != tt.silences || len(set.Acks) != tt.acks {
			t.Errorf("Apply of %s gives %+v, want %d silences and %d acknowledgements", tt.key, set, tt.silences, tt.acks)
		}
	}
	for _, tt := range []struct {
		header, value  string
		key            string
		silences, acks int
	}{
		{"KV-Operation", "PUT", "other", 1, 1},
		{"KV-Operation", "DEL", bus.KeySilences, 0, 1},
		{"Nats-Marker-Reason", "MaxAge", bus.KeyAcks, 0, 0},
	} {
		d := silence.RecordOf(bus.Message{Subject: "$KV." + bus.BucketSilences + "." + tt.key, Seq: 7, Header: nats.Header{tt.header: {tt.value}}})
		if err := d.Apply(&set); err != nil || len(set.Silences) != tt.silences || len(set.Acks) != tt.acks {
			t.Errorf("Apply of %s %s gives %+v, %v, want %d silences and %d acknowledgements", tt.value, tt.key, set, err, tt.silences, tt.acks)
		}
	}
}

// TestUnreadable checks that the error for an unreadable document names the remedy.
func TestUnreadable(t *testing.T) {
	d := silence.Record{Key: bus.KeyAcks, Data: []byte(`{"acks":"all"}`)}
	if err := d.Apply(new(silence.Set)); err == nil || !strings.Contains(err.Error(), "nats kv del silences acks") {
		t.Errorf("Apply of an unreadable document = %v, want an error with the command to delete it", err)
	}
}
