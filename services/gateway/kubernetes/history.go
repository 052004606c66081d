package kubernetes

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// HistoryQuery selects the stored messages that a history returns.
type HistoryQuery struct {
	// App is the app of the object, see [kube.Message.App]; empty means any.
	App string
	// MinRank is the least severity rank, see [Severity].
	MinRank int
	// Since is when the oldest message arrived at the bus.
	Since time.Time
	// Before is the sequence of the oldest message of the previous page, or 0.
	Before uint64
	// Visible reports whether the reader may see a message; nil means all.
	Visible func(m *kube.Message) bool
	// Limit bounds the number of messages, MaxBytes their size as stored.
	Limit, MaxBytes int
	// MaxOlder bounds the number of further messages that are counted.
	MaxOlder int
}

// HistoryItem is a message and when it arrived at the bus.
type HistoryItem struct {
	kube.Message
	Received time.Time `json:"received"`
	// Seq is the message's sequence in its stream.
	Seq uint64 `json:"-"`
}

// History collects the messages of a query, newest first, with each fault once.
type History struct {
	query HistoryQuery
	items []HistoryItem
	bytes int
	older int
	// faults holds the ids and states of the faults that were collected.
	faults map[[2]string]bool
}

// NewHistory returns an empty history.
func NewHistory(q HistoryQuery) *History {
	return &History{query: q, items: []HistoryItem{}, faults: map[[2]string]bool{}}
}

// Add adds the next older message, with its sequence, arrival and size in bytes, and
// reports whether the caller should add more. A fault and later messages about it, such
// as its logs, count once, with the newest; the end of a fault is another item. Messages
// that are not before HistoryQuery.Before are skipped.
func (h *History) Add(m kube.Message, seq uint64, received time.Time, size int) (more bool) {
	q := h.query
	if received.Before(q.Since) {
		return false
	}
	if !q.matches(&m) {
		return true
	}
	if m.Fault != nil && m.Fault.ID != "" {
		fault := [2]string{m.Fault.ID, m.Fault.State}
		if h.faults[fault] {
			return true
		}
		h.faults[fault] = true
	}
	switch {
	case q.Before > 0 && seq >= q.Before:
	case h.older == 0 && len(h.items) < q.Limit && (len(h.items) == 0 || h.bytes+size <= q.MaxBytes):
		h.items, h.bytes = append(h.items, HistoryItem{m, received.UTC(), seq}), h.bytes+size
	default:
		h.older++
	}
	return h.older < q.MaxOlder || h.older == 0 && len(h.items) < q.Limit
}

// Newest returns the collected messages, newest first.
func (h *History) Newest() []HistoryItem { return h.items }

// Older returns how many further messages were left out for Limit or MaxBytes.
func (h *History) Older() int { return h.older }

func (q HistoryQuery) matches(m *kube.Message) bool {
	return (q.Visible == nil || q.Visible(m)) && Severity(m).Rank() >= q.MinRank && (q.App == "" || m.App() == q.App)
}

// Severity returns the severity of a message: a fault's own, also at its end; warning for a
// warning event and a degraded watch; info otherwise.
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
