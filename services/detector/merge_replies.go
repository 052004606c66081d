package detector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// The functions below merge the answers of several partitions to one query. The answers
// are in the order of the partitions.

// mergeEvents returns the newest of all events, at most limit, and as many as fit into a
// reply. Those left out for lack of room count as older. Events are ordered by position,
// or by time where they have none.
func mergeEvents(replies []query.EventsReply, limit int) (all query.EventsReply, err error) {
	all.Events = []query.StoredEvent{}
	for _, r := range replies {
		all.Events = append(all.Events, r.Events...)
		all.Truncated = all.Truncated || r.Truncated
		all.Older += r.Older
	}
	if len(replies) > 1 {
		slices.SortStableFunc(all.Events, func(a, b query.StoredEvent) int {
			return cmp.Or(b.Position.Compare(a.Position), b.Received.Compare(a.Received))
		})
	}
	found := len(all.Events)
	fits, cut, err := fitReply(all.Events[:min(limit, found)])
	all.Events, all.Truncated = fits, all.Truncated || cut
	if slices.ContainsFunc(fits, func(e query.StoredEvent) bool { return e.Position != query.EventPosition{} }) {
		all.Older += found - len(fits)
	}
	return all, err
}

// mergeStatus lists all apps by name, and adds up the backlogs and the lost messages. The
// detector is ready when all partitions are. Equal rules are listed once.
func mergeStatus(replies []query.StatusReply) query.StatusReply {
	all := query.StatusReply{Apps: []query.AppStatus{}, Detector: query.DetectorStatus{Ready: true}}
	for _, r := range replies {
		all.Apps = append(all.Apps, r.Apps...)
		all.Detector.Ready = all.Detector.Ready && r.Detector.Ready
		all.Detector.Behind += r.Detector.Behind
		all.Detector.Lost += r.Detector.Lost
		all.Detector.AppsNotTracked += r.Detector.AppsNotTracked
		for _, rule := range r.Detector.Rules {
			if !slices.Contains(all.Detector.Rules, rule) {
				all.Detector.Rules = append(all.Detector.Rules, rule)
			}
		}
	}
	slices.SortStableFunc(all.Apps, func(a, b query.AppStatus) int { return strings.Compare(a.App, b.App) })
	return all
}

// mergeNoise lists all noise rules. Every partition has the rules that were added by hand:
// they come first, each once with the counts of all partitions. The rules found by the
// detector follow, by app and pattern.
func mergeNoise(replies []query.NoiseReply) (all query.NoiseReply, err error) {
	all.Rules = []query.NoiseRule{}
	manual := map[string]int{}
	var found []query.NoiseRule
	for _, r := range replies {
		all.Added = cmp.Or(all.Added, r.Added)
		all.Found += r.Found
		all.Truncated = all.Truncated || r.Truncated
		all.HiddenTotal += r.HiddenTotal
		all.Removed = append(all.Removed, r.Removed...)
		for _, rule := range r.Rules {
			if rule.State != noise.StateManual {
				found = append(found, rule)
				continue
			}
			if i, ok := manual[rule.ID]; ok {
				addCounts(&all.Rules[i], rule)
				continue
			}
			manual[rule.ID] = len(all.Rules)
			all.Rules = append(all.Rules, rule)
		}
	}
	if len(replies) > 1 {
		slices.SortStableFunc(found, func(a, b query.NoiseRule) int {
			return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(a.Pattern+a.ID, b.Pattern+b.ID))
		})
		slices.SortStableFunc(all.Removed, func(a, b query.RemovedRule) int { return strings.Compare(a.App, b.App) })
	}
	all.Removed = all.Removed[:min(query.MaxRemoved, len(all.Removed))]
	fits, cut, err := fitReply(append(all.Rules, found...))
	all.Rules, all.Truncated = fits, all.Truncated || cut
	return all, err
}

// addCounts adds the counts of another partition to a rule that was added by hand. The
// examples are those of the partition where it matched last.
func addCounts(r *query.NoiseRule, other query.NoiseRule) {
	r.Hidden += other.Hidden
	r.HiddenLast10Min += other.HiddenLast10Min
	r.AlertsHeld += other.AlertsHeld
	if len(other.ByLevel) > 0 {
		levels := maps.Clone(other.ByLevel)
		for level, n := range r.ByLevel {
			levels[level] += n
		}
		r.ByLevel = levels
	}
	if len(other.Examples) > 0 && (len(r.Examples) == 0 || other.LastSeen.After(r.LastSeen)) {
		r.Examples = other.Examples
	}
	if other.LastSeen.After(r.LastSeen) {
		r.LastSeen = other.LastSeen
	}
	if r.Since.IsZero() || !other.Since.IsZero() && other.Since.Before(r.Since) {
		r.Since = other.Since
	}
}

// mergeVitals lists all pages, the one loaded last first. While they don't fit into a
// reply, it drops the older half of each page's loads.
func mergeVitals(replies []query.VitalsReply) (all query.VitalsReply, err error) {
	all.Pages = []query.PageVitals{}
	for _, r := range replies {
		all.Pages = append(all.Pages, r.Pages...)
		all.Truncated = all.Truncated || r.Truncated
	}
	slices.SortStableFunc(all.Pages, func(a, b query.PageVitals) int { return lastLoad(b).Compare(lastLoad(a)) })
	if len(all.Pages) > query.MaxVitalsPages {
		all.Pages, all.Truncated = all.Pages[:query.MaxVitalsPages], true
	}
	for {
		data, err := json.Marshal(all)
		if err != nil {
			return all, fmt.Errorf("encode the answer: %w", err)
		}
		if len(data) <= query.MaxReply {
			return all, nil
		}
		all.Truncated = true
		most := 0
		for i := range all.Pages {
			p := &all.Pages[i]
			p.Loads = p.Loads[(len(p.Loads)+1)/2:]
			most = max(most, len(p.Loads))
		}
		if most == 0 { // the names alone are too long
			all.Pages = all.Pages[:len(all.Pages)/2]
		}
	}
}

// lastLoad returns when a page was loaded last, or the zero time if no load is known.
func lastLoad(p query.PageVitals) time.Time {
	if len(p.Loads) == 0 {
		return time.Time{}
	}
	return p.Loads[len(p.Loads)-1].Received
}

// fitReply drops the end of a list that is too long for a reply.
func fitReply[T any](list []T) (fits []T, truncated bool, err error) {
	size := 0
	for i := range list {
		data, err := json.Marshal(list[i])
		if err != nil {
			return nil, false, fmt.Errorf("encode the answer: %w", err)
		}
		if size += len(data) + 1; size > query.MaxReply {
			return list[:i], true, nil
		}
	}
	return list, false, nil
}
