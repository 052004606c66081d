package eventring

import (
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// minute is the number of seconds with a count of their own.
const minute = 60

// app has the senders and counts of one app.
type app struct {
	senders []string // the one seen last at the end
	last    time.Time
	// counts has the events of each second, at the second modulo 60. seconds has the second
	// of each count.
	counts  [minute]int
	seconds [minute]int64
}

func (a *app) add(received time.Time, sender string) {
	a.last = received
	second := received.Unix()
	i := ((second % minute) + minute) % minute
	if a.seconds[i] != second {
		a.seconds[i], a.counts[i] = second, 0
	}
	a.counts[i]++
	if n := len(a.senders); sender == "" || n > 0 && a.senders[n-1] == sender {
		return
	}
	a.senders = slices.DeleteFunc(a.senders, func(s string) bool { return s == sender })
	if len(a.senders) == MaxSenders {
		a.senders = slices.Delete(a.senders, 0, 1)
	}
	a.senders = append(a.senders, strings.Clone(sender))
}

// Status returns the senders, the age of the last event and the events of the last minute
// of every known app, by name. The minute consists of whole seconds.
func (s *Store) Status(now time.Time) []query.AppStatus {
	all := []query.AppStatus{}
	for name, known := range s.apps.All() {
		a := *known
		status := query.AppStatus{App: name, Senders: slices.Clone(a.senders), LastEventSeconds: max(now.Sub(a.last).Seconds(), 0)}
		if status.Senders == nil {
			status.Senders = []string{} // [] and not null on the wire
		}
		slices.Sort(status.Senders)
		for i, second := range a.seconds {
			if age := now.Unix() - second; age >= 0 && age < minute {
				status.LastMinute += a.counts[i]
			}
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b query.AppStatus) int { return strings.Compare(a.App, b.App) })
	return all
}
