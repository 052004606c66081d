package anomaly

import (
	"fmt"
	"strconv"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Alert says that a spike of an app's signal (alert.SignalLogs or
// alert.SignalRequests) began.
func (s Spike) Alert(app, signal string) alert.Alert {
	average := strconv.FormatFloat(s.Average, 'f', 1, 64)
	return alert.Alert{
		Severity: alert.Error, Category: alert.Anomaly, Source: alert.SourceAnomaly,
		Title:    "Error spike in " + signal + ": more than 3x the rolling average",
		Detail:   fmt.Sprintf("%d errors in the last 10 s, rolling average %s (of the 60 s before)", s.Count, average),
		Context:  map[string]any{alert.SignalKey: signal, "count": s.Count, "average": s.Average},
		DedupKey: "anomaly:" + app + ":" + signal,
	}
}
