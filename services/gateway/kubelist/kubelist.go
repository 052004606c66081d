// Package kubelist decides which of what clusters said a reader is shown who looks
// back: the newest first, each fault once.
//
// It is pure. It takes messages as they were stored, from the newest back, and knows
// neither where they come from nor how they are made fit to be told.
package kubelist

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Want is what a reader wants to see.
type Want struct {
	// App is that of the object, as kube.App says; empty means any.
	App string
	// MinRank is the least severity, by its rank; see Severity.
	MinRank int
	// Since is how far back, by the bus's own stamps.
	Since time.Time
	// Before is the sequence of the oldest message that was shown before, or 0.
	Before uint64
	// Shows says what this reader may see at all.
	Shows func(m *kube.Message) bool
	// Limit is how many are shown at most, MaxBytes how much, as stored.
	Limit, MaxBytes int
	// MaxOlder is how many are counted that are not shown.
	MaxOlder int
}

// Shown is a message and when the bus received it.
type Shown struct {
	kube.Message
	Received time.Time `json:"received"`
	// Seq is that of the message.
	Seq uint64 `json:"-"`
}

// List is what is shown.
type List struct {
	want  Want
	items []Shown
	bytes int
	older int
	// faults are those that have a place, by id and state.
	faults map[[2]string]bool
}

// New is a list of nothing yet.
func New(w Want) *List { return &List{want: w, items: []Shown{}, faults: map[[2]string]bool{}} }

// Add takes the next older message, of that sequence and so many bytes, and reports
// whether any more are of interest. Of a fault and what was said of it later, as with
// its logs, the newest stands for both; its end is another item. Messages that are not
// before Want.Before were shown before.
func (l *List) Add(m kube.Message, seq uint64, received time.Time, size int) (more bool) {
	if received.Before(l.want.Since) {
		return false
	}
	if !l.wants(&m) {
		return true
	}
	if m.Fault != nil && m.Fault.ID != "" {
		fault := [2]string{m.Fault.ID, m.Fault.State}
		if l.faults[fault] {
			return true
		}
		l.faults[fault] = true
	}
	switch {
	case l.want.Before > 0 && seq >= l.want.Before:
	case l.older == 0 && len(l.items) < l.want.Limit && (len(l.items) == 0 || l.bytes+size <= l.want.MaxBytes):
		l.items, l.bytes = append(l.items, Shown{m, received.UTC(), seq}), l.bytes+size
	default:
		l.older++
	}
	return l.older < l.want.MaxOlder || l.older == 0 && len(l.items) < l.want.Limit
}

// Newest are the messages that are shown, the newest first.
func (l *List) Newest() []Shown { return l.items }

// Older is how many are not shown, for Limit or for MaxBytes.
func (l *List) Older() int { return l.older }

func (l *List) wants(m *kube.Message) bool {
	return (l.want.Shows == nil || l.want.Shows(m)) && Severity(m).Rank() >= l.want.MinRank && (l.want.App == "" || m.App() == l.want.App)
}

// Severity is how urgent a message is: of a fault what it says, also of its end;
// a warning for an event of that type and a cluster that can't be watched.
func Severity(m *kube.Message) alert.Severity {
	switch {
	case m.Fault != nil && m.Fault.Severity.Rank() > 0:
		return m.Fault.Severity
	case m.Fault != nil, m.Event != nil && m.Event.Type == kube.TypeWarning, m.Watch != nil && m.Watch.Degraded:
		return alert.Warning
	default:
		return alert.Info
	}
}
