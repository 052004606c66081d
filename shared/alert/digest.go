package alert

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// CorrelationWindow is how far apart in time a regression and an anomaly of one app may be,
// inclusive, to become one alert.
const CorrelationWindow = 5 * time.Second

// MergeKey is equal for repetitions of one finding. It is comparable. A resolution is no
// repetition of the alert that it resolves, though both have the same DedupKey.
type MergeKey struct {
	App, DedupKey string
	Resolution    bool
}

// MergeKey returns the key under which the alert is merged with others.
func (a Alert) MergeKey() MergeKey {
	return MergeKey{App: a.App, DedupKey: a.DedupKey, Resolution: a.IsResolution()}
}

// IsResolution reports whether the alert is about the end of a finding: it resolves another
// alert, or was resolved before it was delivered.
func (a Alert) IsResolution() bool { return a.Resolves != "" || a.Resolved }

// Ends reports whether the alert resolves the one with an ID.
func (a Alert) Ends(id string) bool {
	return a.Resolves != "" && (a.Resolves == id || slices.Contains(a.AlsoResolves, id))
}

// OnlyResolves reports whether the alert has no news beside the end of another one. A
// resolution of a CI failure or a threshold has: the success, the new state. So has one
// with the outcome NewLevel.
func (a Alert) OnlyResolves() bool {
	return a.Resolves != "" && a.Category != CI && a.Category != Threshold && a.Context[OutcomeKey] != NewLevel
}

// Merge makes one alert of two with the same MergeKey. It is the one with the newer timestamp
// (of equal ones the later arrival), with the higher severity and the sum of the counts. A
// merged summary of a storm has the counts of both. It has the later arrival's investigation, or
// the earlier one's if that has none.
func Merge(earlier, later Alert) Alert {
	merged := later
	if earlier.Timestamp.After(later.Timestamp) {
		merged = earlier
	}
	merged.Severity = higher(earlier.Severity, later.Severity)
	merged.Count = earlier.Occurrences() + later.Occurrences()
	merged.Seq = max(earlier.Seq, later.Seq)
	merged.Investigation = later.KeepInvestigation(earlier.Investigation).Investigation
	return mergeStorms(earlier, later, merged)
}

// Digest returns alerts as a new reader gets them; for one who got alerts before, see
// [Causes]. The input stays as it is.
func Digest(alerts []Alert) []Alert {
	pending := make([]Pending, len(alerts))
	for i, a := range alerts {
		pending[i] = Pending{Alert: a}
	}
	return Alerts(new(Causes).Digest(pending))
}

// inOrder returns alerts sorted by severity, the most severe first, then by time and by
// sequence, the newest first. Titles and details are truncated. The input stays as it is.
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

// pair is a regression and an anomaly that belong together, by their indexes.
type pair struct {
	regression, anomaly int
	apart               time.Duration
}

// correlate joins pairs: a regression and an anomaly of one app within CorrelationWindow
// become one alert, in the place of the regression. An alert is joined at most once; the
// pair closest in time has precedence, of equal ones the first. Resolutions are not joined.
// It takes time in the product of regressions and anomalies; an inbox holds few of both.
func correlate(alerts []Pending) []Pending {
	pairs := pairsOf(alerts)
	if len(pairs) == 0 {
		return alerts
	}
	// A stable sort: of equally close pairs the order of arrival decides.
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
		if r.Category != Regression || r.IsResolution() || r.OnlyInvestigation {
			continue
		}
		for j, a := range alerts {
			if a.Category != Anomaly || a.App != r.App || a.IsResolution() || a.OnlyInvestigation {
				continue
			}
			if apart := r.Timestamp.Sub(a.Timestamp).Abs(); apart <= CorrelationWindow {
				pairs = append(pairs, pair{i, j, apart})
			}
		}
	}
	return pairs
}

// joinPending is join for pending alerts, which began at different times.
func joinPending(regression, anomaly Pending) Pending {
	joined := Pending{Alert: join(regression.Alert, anomaly.Alert), Since: regression.since()}
	if first := anomaly.since(); first.Before(joined.Since) {
		joined.Since = first
	}
	return joined
}

// join makes one alert of a regression and an anomaly: the regression, with the texts and the
// context of both, and the correlation ID of the earlier one. It is one finding, so it has
// a Count only where a part has one.
func join(regression, anomaly Alert) Alert {
	joined := regression
	joined.Title = "Correlated: " + regression.Title + " + " + anomaly.Title
	joined.Detail = regression.Detail + " | " + anomaly.Detail
	joined.Severity = higher(regression.Severity, anomaly.Severity)
	joined.URL = cmp.Or(regression.URL, anomaly.URL)
	joined.Investigation = regression.KeepInvestigation(anomaly.Investigation).Investigation
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

// Highest returns the highest severity of alerts. It need not be that of the first: a cause
// stands before its symptoms, which may be more severe.
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
