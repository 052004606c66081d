package alert

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// CorrelationWindow is how far apart in time a regression and an anomaly of one
// app may be, inclusive, to be told as one.
const CorrelationWindow = 5 * time.Second

// MergeKey is what repetitions of one finding have in common. It is comparable.
// Over keeps the end of a finding apart from the finding: that it is over is no
// repetition of it, though both have one DedupKey.
type MergeKey struct {
	App, DedupKey string
	Over          bool
}

// MergeKey returns the key under which the alert is merged with others.
func (a Alert) MergeKey() MergeKey {
	return MergeKey{App: a.App, DedupKey: a.DedupKey, Over: a.Over()}
}

// Over says that the alert tells the end of a finding: by resolving another
// alert, or because it was over itself before it was told.
func (a Alert) Over() bool { return a.Resolves != "" || a.Resolved }

// Ends says that an alert with that id is over by what this one tells.
func (a Alert) Ends(id string) bool {
	return a.Resolves != "" && (a.Resolves == id || slices.Contains(a.AlsoResolves, id))
}

// OnlyResolves says that the alert tells nothing but that another one is over.
// The end of a CI failure and of a threshold is news by itself as well: that of
// a success, and of a new state. So is that of what is there to stay (NewLevel).
func (a Alert) OnlyResolves() bool {
	return a.Resolves != "" && a.Category != CI && a.Category != Threshold && a.Context[OutcomeKey] != NewLevel
}

// Merge makes one alert of two with the same MergeKey. Everything is as in the
// one with the newer timestamp (in the later arrival when they are equal), but
// the severity is the higher one and Count the sum of what both stand for. Of two
// summaries of a storm, one summary has the counts of both.
func Merge(earlier, later Alert) Alert {
	merged := later
	if earlier.Timestamp.After(later.Timestamp) {
		merged = earlier
	}
	merged.Severity = higher(earlier.Severity, later.Severity)
	merged.Count = earlier.Occurrences() + later.Occurrences()
	merged.Seq = max(earlier.Seq, later.Seq)
	return mergeStorms(earlier, later, merged)
}

// Digest prepares alerts for a reader who was told nothing before, each as it
// came: see Causes, which does it for one who was. The input stays as it is.
func Digest(alerts []Alert) []Alert {
	pending := make([]Pending, len(alerts))
	for i, a := range alerts {
		pending[i] = Pending{Alert: a}
	}
	return Alerts(new(Causes).Digest(pending))
}

// inOrder returns alerts as they are shown: error, warning, info, within
// that the newest first, of equal times by their places in the stream, and
// otherwise in the order given. Titles and details
// are cut to MaxTitle and MaxDetail. The input stays as it is.
func inOrder(pending []Pending) []Pending {
	sorted := slices.Clone(pending)
	for i := range sorted {
		sorted[i].Title = sanitize.Cut(sorted[i].Title, MaxTitle)
		sorted[i].Detail = sanitize.Cut(sorted[i].Detail, MaxDetail)
	}
	slices.SortStableFunc(sorted, func(a, b Pending) int {
		return cmp.Or(
			cmp.Compare(b.Severity.Rank(), a.Severity.Rank()),
			b.Timestamp.Compare(a.Timestamp),
			cmp.Compare(b.Seq, a.Seq),
		)
	})
	return sorted
}

// pair is a regression and an anomaly, by their places, that belong together.
type pair struct {
	regression, anomaly int
	apart               time.Duration
}

// correlate returns the alerts with pairs joined: a regression and an anomaly of
// one app within CorrelationWindow become one alert, in the place of the
// regression. An alert is joined at most once; the pair closest in time goes
// first, among equals the one that came first. What is over is joined with
// nothing. It takes time in the product of regressions and anomalies, which
// are at most as many as an inbox holds.
func correlate(alerts []Pending) []Pending {
	pairs := pairsOf(alerts)
	if len(pairs) == 0 {
		return alerts
	}
	// A stable sort: among equally close pairs the order of arrival decides.
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.apart, b.apart) })
	partner := make(map[int]int, len(pairs))
	gone := make(map[int]bool, len(pairs))
	for _, p := range pairs {
		if _, taken := partner[p.regression]; taken || gone[p.anomaly] {
			continue
		}
		partner[p.regression], gone[p.anomaly] = p.anomaly, true
	}
	joined := make([]Pending, 0, len(alerts)-len(gone))
	for i, a := range alerts {
		if gone[i] {
			continue
		}
		if other, ok := partner[i]; ok {
			a = joinPending(a, alerts[other])
		}
		joined = append(joined, a)
	}
	return joined
}

func pairsOf(alerts []Pending) []pair {
	var pairs []pair
	for i, r := range alerts {
		if r.Category != Regression || r.Over() {
			continue
		}
		for j, a := range alerts {
			if a.Category != Anomaly || a.App != r.App || a.Over() {
				continue
			}
			if apart := r.Timestamp.Sub(a.Timestamp).Abs(); apart <= CorrelationWindow {
				pairs = append(pairs, pair{i, j, apart})
			}
		}
	}
	return pairs
}

// joinPending is join for alerts that began each at its own time.
func joinPending(regression, anomaly Pending) Pending {
	joined := Pending{Alert: join(regression.Alert, anomaly.Alert), Since: regression.since()}
	if first := anomaly.since(); first.Before(joined.Since) {
		joined.Since = first
	}
	return joined
}

// join tells a regression and an anomaly as one alert. It is the regression in
// all that the contract doesn't name, with the context of both. The correlation
// id is the earlier one's, which the later one was given when it was made. A
// joined alert is one finding, so it has a Count only where a part had one.
func join(regression, anomaly Alert) Alert {
	joined := regression
	joined.Title = "Correlated: " + regression.Title + " + " + anomaly.Title
	joined.Detail = regression.Detail + " | " + anomaly.Detail
	joined.Severity = higher(regression.Severity, anomaly.Severity)
	joined.URL = cmp.Or(regression.URL, anomaly.URL)
	if anomaly.Timestamp.After(regression.Timestamp) {
		joined.Timestamp = anomaly.Timestamp
	}
	if anomaly.Timestamp.Before(regression.Timestamp) {
		joined.CorrelationID = anomaly.CorrelationID
	}
	joined.Count = 0
	if regression.Occurrences() > 1 || anomaly.Occurrences() > 1 {
		joined.Count = regression.Occurrences() + anomaly.Occurrences()
	}
	if len(anomaly.Context) > 0 {
		joined.Context = maps.Clone(anomaly.Context)
		maps.Copy(joined.Context, regression.Context)
	}
	return joined
}

// Highest is the severity of the most severe of alerts. A cause stands before what
// came of it, also where that is worse.
func Highest(alerts []Alert) (severity Severity) {
	for _, a := range alerts {
		severity = higher(a.Severity, severity)
	}
	return severity
}

func higher(a, b Severity) Severity {
	if a.Rank() > b.Rank() {
		return a
	}
	return b
}
