// Package silences keeps one client's view of silences and acknowledgements: which
// alerts are suppressed, in step with the bus, and the commands that change that.
//
// The rules themselves are in shared/silence. It knows nothing of inboxes.
package silences

import (
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

const (
	// maxEnded is how many acknowledgements that have ended are remembered until the
	// bus has stored that. Beyond it the oldest is forgotten: another gateway has probably
	// ended it too, and if not, the next such alert does.
	maxEnded = 64
	// maxCounted is the number of silences and acknowledgements with a count of suppressed
	// alerts. Beyond it the counts of those that no longer exist are forgotten.
	maxCounted = 2 * (silence.MaxSilences + silence.MaxAcks)
)

// Filter decides which alerts are suppressed, and counts them. It is not safe for
// concurrent use.
type Filter struct {
	set silence.Set
	// revisions are the revisions of the two records in set, by key.
	revisions map[string]uint64
	// ended are acknowledgements that ended recently: an older record must not restore
	// them.
	ended silence.Acks
	// suppressed counts alerts by what suppressed them.
	suppressed map[silence.Cause]uint64
	// endedAcks receives each acknowledgement that ends, to be stored for others.
	endedAcks chan silence.Ack
	log       *slog.Logger
}

// NewFilter returns a filter that suppresses nothing yet.
func NewFilter(log *slog.Logger) *Filter {
	return &Filter{revisions: map[string]uint64{}, suppressed: map[silence.Cause]uint64{}, endedAcks: make(chan silence.Ack, maxEnded), log: log}
}

// Apply replaces what a record holds, unless the filter has a newer revision of it. A
// record that can't be read changes nothing.
func (f *Filter) Apply(record silence.Record) {
	if record.Revision <= f.revisions[record.Key] {
		return
	}
	f.revisions[record.Key] = record.Revision
	if err := record.Apply(&f.set); err != nil {
		f.log.Warn("cannot read the silences", "key", record.Key, "error", err)
	}
	f.set.Acks, _ = f.set.Acks.MarkEnded(f.ended...)
}

// ForgetRevisions makes the filter apply the next record of any revision: the bucket
// may be another one than before.
func (f *Filter) ForgetRevisions() { clear(f.revisions) }

// DropMissing removes what was in records that have not come since ForgetRevisions.
func (f *Filter) DropMissing() {
	if f.revisions[bus.KeySilences] == 0 {
		f.set.Silences = nil
	}
	if f.revisions[bus.KeyAcks] == 0 {
		f.set.Acks = nil
	}
}

// CheckAndCount reports whether a new alert is suppressed, and counts it.
func (f *Filter) CheckAndCount(a alert.Alert, now time.Time) bool {
	cause, suppressed := f.Check(a, now)
	if suppressed {
		f.Count(cause, 1)
	}
	return suppressed
}

// Check reports whether an alert is suppressed, and by what. It first ends the
// acknowledgements that the alert ends. A second call with the same alert has no effect.
func (f *Filter) Check(a alert.Alert, now time.Time) (cause silence.Cause, suppressed bool) {
	after, ended := f.set.Acks.Apply(a)
	f.set.Acks = after
	for _, ack := range ended {
		f.ended = append(f.ended, ack)
		select {
		case f.endedAcks <- ack:
		default: // nothing stores them, or too slowly: see maxEnded
		}
	}
	f.ended = f.ended[max(len(f.ended)-maxEnded, 0):]
	return f.Matches(a, now)
}

// Matches reports whether a silence or an acknowledgement matches an alert, and which.
// It ends no acknowledgement.
func (f *Filter) Matches(a alert.Alert, now time.Time) (cause silence.Cause, suppressed bool) {
	return f.set.Suppresses(a, now)
}

// Count counts suppressed alerts.
func (f *Filter) Count(cause silence.Cause, alerts int) {
	f.suppressed[cause] += uint64(alerts)
	if len(f.suppressed) > maxCounted {
		f.forgetCounts()
	}
}

// Suppressed returns how many alerts a silence or acknowledgement has suppressed.
func (f *Filter) Suppressed(cause silence.Cause) uint64 { return f.suppressed[cause] }

// Active returns what is in force at a time, oldest first.
func (f *Filter) Active(now time.Time) silence.Set {
	return silence.Set{Silences: f.set.Silences.Active(now), Acks: f.set.Acks.Active(now)}
}

// forgetCounts forgets the counts of what no longer exists.
func (f *Filter) forgetCounts() {
	known := make(map[silence.Cause]uint64, len(f.suppressed))
	for _, s := range f.set.Silences {
		if cause := (silence.Cause{Silence: s.ID}); f.suppressed[cause] > 0 {
			known[cause] = f.suppressed[cause]
		}
	}
	for _, ack := range f.set.Acks {
		if cause := (silence.Cause{Ack: ack.AlertID}); f.suppressed[cause] > 0 {
			known[cause] = f.suppressed[cause]
		}
	}
	f.suppressed = known
}
