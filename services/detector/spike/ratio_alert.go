package spike

import (
	"fmt"
	"strconv"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Alert returns the alert about the beginning of a spike in an app's signal
// (alert.SignalLogs or alert.SignalRequests).
func (s RatioSpike) Alert(app, signal string) alert.Alert {
	a := s.base(app, signal)
	a.Severity, a.Title = alert.Error, "Error spike in "+signal+": more than 3x the rolling average"
	return a
}

// Resolution returns the alert that ends the spike whose alert has an id. A spike that
// stayed is the new level, which is not called resolved.
func (s RatioSpike) Resolution(app, signal, id string) alert.Alert {
	a := s.base(app, signal)
	a.Severity, a.Title, a.Resolves = alert.Info, "Resolved: Error spike in "+signal, id
	if s.Stayed {
		a.Context[alert.OutcomeKey] = alert.NewLevel
		a.Title = "Error rate in " + signal + " stays at the spike's level, now treated as normal"
	}
	return a
}

// base returns the fields that the alerts about beginning and end have in common.
func (s RatioSpike) base(app, signal string) alert.Alert {
	average := strconv.FormatFloat(s.Average, 'f', 1, 64)
	return alert.Alert{
		Category: alert.Anomaly, Source: alert.SourceAnomaly,
		Detail:   fmt.Sprintf("%d errors in the last 10 s, rolling average %s (of the 60 s before)", s.Count, average),
		Context:  map[string]any{alert.SignalKey: signal, "count": s.Count, "average": s.Average},
		DedupKey: "anomaly:" + app + ":" + signal,
	}
}
