package kubernetes

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// HistoryQuery is what a reader wants to see.
type HistoryQuery struct {
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

// HistoryItem is a message and when the bus received it.
type HistoryItem struct {
	kube.Message
	Received time.Time `json:"received"`
	// Seq is that of the message.
	Seq uint64 `json:"-"`
}

// History is what is shown.
type History struct {
	query HistoryQuery
	items []HistoryItem
	bytes int
	older int
	// faults are those that have a place, by id and state.
	faults map[[2]string]bool
}

// NewHistory is a list of nothing yet.
func NewHistory(w HistoryQuery) *History {
	return &History{query: w, items: []HistoryItem{}, faults: map[[2]string]bool{}}
}

// Add takes the next older message, of that sequence and so many bytes, and reports
// whether any more are of interest. Of a fault and what was said of it later, as with
// its logs, the newest stands for both; its end is another item. Messages that are not
// before HistoryQuery.Before were shown before.
func (l *History) Add(m kube.Message, seq uint64, received time.Time, size int) (more bool) {
	if received.Before(l.query.Since) {
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
	case l.query.Before > 0 && seq >= l.query.Before:
	case l.older == 0 && len(l.items) < l.query.Limit && (len(l.items) == 0 || l.bytes+size <= l.query.MaxBytes):
		l.items, l.bytes = append(l.items, HistoryItem{m, received.UTC(), seq}), l.bytes+size
	default:
		l.older++
	}
	return l.older < l.query.MaxOlder || l.older == 0 && len(l.items) < l.query.Limit
}

// Newest are the messages that are shown, the newest first.
func (l *History) Newest() []HistoryItem { return l.items }

// Older is how many are not shown, for Limit or for MaxBytes.
func (l *History) Older() int { return l.older }

func (l *History) wants(m *kube.Message) bool {
	return (l.query.Shows == nil || l.query.Shows(m)) && Severity(m).Rank() >= l.query.MinRank && (l.query.App == "" || m.App() == l.query.App)
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
