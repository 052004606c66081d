// Package merge merges the answers of several partitions to one query into one answer. The
// answers are in the order of the partitions.
package merge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/vitals"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// Events returns the newest of all events, at most limit, and as many as fit into a reply.
// Those left out for lack of room count as older. Positions, where events have them, decide
// which is newer.
func Events(replies []query.EventsReply, limit int) (all query.EventsReply, err error) {
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
	fits, cut, err := fit(all.Events[:min(limit, found)])
	all.Events, all.Truncated = fits, all.Truncated || cut
	if slices.ContainsFunc(fits, func(e query.StoredEvent) bool { return e.Position != query.EventPosition{} }) {
		all.Older += found - len(fits)
	}
	return all, err
}

// Status joins the apps, by name, and adds up what is still to be read and what was lost.
// It is ready when all are. Equal rules are listed once.
func Status(replies []query.StatusReply) query.StatusReply {
	all := query.StatusReply{Apps: []query.AppStatus{}, Detector: query.DetectorStatus{Ready: true}}
	for _, r := range replies {
		all.Apps = append(all.Apps, r.Apps...)
		all.Detector.Ready = all.Detector.Ready && r.Detector.Ready
		all.Detector.Behind += r.Detector.Behind
		all.Detector.Lost += r.Detector.Lost
		all.Detector.AppsNotTracked += r.Detector.AppsNotTracked
		for _, by := range r.Detector.Rules {
			if !slices.Contains(all.Detector.Rules, by) {
				all.Detector.Rules = append(all.Detector.Rules, by)
			}
		}
	}
	slices.SortStableFunc(all.Apps, func(a, b query.AppStatus) int { return strings.Compare(a.App, b.App) })
	return all
}

// Noise joins the rules. Those added by hand are the same in all partitions: each is listed
// once, with what all partitions hid, before the others, which follow by app and pattern.
func Noise(replies []query.NoiseReply) (all query.NoiseReply, err error) {
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
				join(&all.Rules[i], rule)
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
	fits, cut, err := fit(append(all.Rules, found...))
	all.Rules, all.Truncated = fits, all.Truncated || cut
	return all, err
}

// join adds the counts of another partition to a rule that was added by hand. The partition
// where it matched last has the newest examples.
func join(r *query.NoiseRule, o query.NoiseRule) {
	r.Hidden += o.Hidden
	r.HiddenLast10Min += o.HiddenLast10Min
	r.AlertsHeld += o.AlertsHeld
	if len(o.ByLevel) > 0 {
		levels := maps.Clone(o.ByLevel)
		for level, n := range r.ByLevel {
			levels[level] += n
		}
		r.ByLevel = levels
	}
	if len(o.Examples) > 0 && (len(r.Examples) == 0 || o.LastSeen.After(r.LastSeen)) {
		r.Examples = o.Examples
	}
	if o.LastSeen.After(r.LastSeen) {
		r.LastSeen = o.LastSeen
	}
	if r.Since.IsZero() || !o.Since.IsZero() && o.Since.Before(r.Since) {
		r.Since = o.Since
	}
}

// Vitals joins the pages, the one loaded last first. As long as they don't fit into a
// reply, the older half of each page's loads is left out.
func Vitals(replies []query.VitalsReply) (all query.VitalsReply, err error) {
	all.Pages = []query.PageVitals{}
	for _, r := range replies {
		all.Pages = append(all.Pages, r.Pages...)
		all.Truncated = all.Truncated || r.Truncated
	}
	slices.SortStableFunc(all.Pages, func(a, b query.PageVitals) int { return vitals.Last(b).Compare(vitals.Last(a)) })
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
		if most == 0 { // names alone are that long
			all.Pages = all.Pages[:len(all.Pages)/2]
		}
	}
}

// fit leaves out the end of a list where the reply would be too large.
func fit[T any](list []T) (fits []T, truncated bool, err error) {
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
