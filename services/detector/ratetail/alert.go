package ratetail

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// The values of ruleKey: which rule raised the alert.
const (
	ruleKey       = "rule"
	ruleRateTail  = "rate-tail"
	ruleRecurring = "recurring"
	ruleDrift     = "drift"
)

// Alert returns the alert about a finding in an app's signal (alert.SignalLogs or
// alert.SignalRequests).
func (f Finding) Alert(app, signal string) alert.Alert {
	a := f.base(app, signal)
	switch f.Kind {
	case Recurring:
		a.Severity, a.Title = alert.Info, "Error burst in "+signal+" recurs by a schedule"
		a.Detail = fmt.Sprintf("every %s, with about %.0f errors each time; it becomes an error over %d s, over %d times that size, or when over 30%% of the app's requests fail",
			formatSpan(f.Period), f.Usual, maxBurstSeconds, maxLarger)
	case Drift:
		a.Severity, a.Title = alert.Warning, "Errors in "+signal+" have drifted upwards"
		a.Detail = fmt.Sprintf("from %s/s to %s/s over %s", formatFigure(f.From), formatFigure(f.To), formatSpan(float64(f.Over)))
	default:
		a.Severity, a.Title = alert.Error, "Error spike in "+signal+": far more than expected"
		a.Detail = fmt.Sprintf("%d errors in %d s; expected %s; p %s", f.Count, f.Seconds, formatFigure(f.Expected), formatProbability(f.LogP))
		if f.Period > 0 {
			than := "larger"
			if f.Longer {
				than = "goes on for longer"
			}
			a.Detail += fmt.Sprintf("; %s than the burst that recurs every %s", than, formatSpan(f.Period))
		}
	}
	return a
}

// Resolution returns the alert that ends a spike or drift, whose alert has an id. If the
// errors stay as many, it closes that alert as a new level.
func (f Finding) Resolution(app, signal, id string) alert.Alert {
	a := f.base(app, signal)
	a.Severity, a.Resolves = alert.Info, id
	switch f.Kind {
	case SpikeStayed:
		a.Context[alert.OutcomeKey] = alert.NewLevel
		a.Title = "Error rate in " + signal + " stays at the spike's level, now treated as normal"
		a.Detail = fmt.Sprintf("After %s, %s errors in %d s are what is expected", formatSpan(newLevel), formatFigure(f.Expected), f.Seconds)
	case DriftOver:
		a.Title = "Resolved: Errors in " + signal + " have drifted upwards"
		a.Detail = fmt.Sprintf("back at %s/s; the drift had begun at %s/s", formatFigure(f.To), formatFigure(f.From))
	case DriftStayed:
		a.Context[alert.OutcomeKey] = alert.NewLevel
		a.Title = "Error rate in " + signal + " stays higher, now treated as normal"
		a.Detail = fmt.Sprintf("%s/s is what is expected from now on; the drift had begun at %s/s", formatFigure(f.To), formatFigure(f.From))
	case RecurringOver:
		a.Title = "Resolved: Error burst in " + signal
		a.Detail = fmt.Sprintf("%d errors in the last %d s; expected %s", f.Count, f.Seconds, formatFigure(f.Expected))
	default:
		a.Title = "Resolved: Error spike in " + signal
		a.Detail = fmt.Sprintf("%d errors in the last %d s; expected %s", f.Count, f.Seconds, formatFigure(f.Expected))
	}
	return a
}

// base returns the fields that the alerts about the beginning and the end have in common.
func (f Finding) base(app, signal string) alert.Alert {
	a := alert.Alert{
		Category: alert.Anomaly, Source: alert.SourceAnomaly, DedupKey: "anomaly:" + app + ":" + signal,
		Context: map[string]any{alert.SignalKey: signal},
	}
	switch f.Kind {
	case Drift, DriftOver, DriftStayed:
		a.DedupKey += ":drift"
		a.Context[ruleKey] = ruleDrift
		a.Context["from_per_s"], a.Context["to_per_s"] = rounded(f.From), rounded(f.To)
		return a
	case Recurring:
		a.Context[ruleKey], a.Context["period_s"], a.Context["usual"] = ruleRecurring, rounded(f.Period), rounded(f.Usual)
	default:
		a.Context[ruleKey] = ruleRateTail
	}
	a.Context["count"], a.Context["window_s"] = f.Count, f.Seconds
	a.Context["expected"], a.Context["average"] = rounded(f.Expected), rounded(f.Expected)
	if f.LogP != 0 {
		a.Context["p"] = rounded(math.Exp(max(f.LogP, minPower*math.Ln10)))
	}
	return a
}

// rounded returns a figure with three digits: no more are known.
func rounded(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v // not reached: what was written is a number
	}
	return r
}

// minPower is the smallest power of ten that is shown.
const minPower = -300

// formatProbability writes a probability, given its natural logarithm.
func formatProbability(logP float64) string {
	power := math.Floor(logP / math.Ln10)
	digit := math.Round(math.Exp(logP - power*math.Ln10))
	if digit == 10 {
		digit, power = 1, power+1
	}
	switch {
	case power < minPower || math.IsInf(logP, 0):
		return fmt.Sprintf("< 1e%d", minPower)
	case power >= 0:
		return "= 1"
	default:
		return fmt.Sprintf("= %.0fe%.0f", digit, power)
	}
}

// formatFigure writes a number to two digits, and from ten on in whole ones.
func formatFigure(v float64) string {
	if v >= 9.95 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	if v < 0.001 {
		return "0"
	}
	digits := 1 - int(math.Floor(math.Log10(v)))
	s := strconv.FormatFloat(v, 'f', digits, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

// formatSpan writes how long something is, in seconds: "45 s", "15 min", "1 h 30 min".
// A few seconds off whole minutes are chance.
func formatSpan(seconds float64) string {
	s := int64(math.Round(seconds))
	if m := (s + 30) / 60; m >= 20 || m > 0 && s-60*m <= 5 && 60*m-s <= 5 {
		s = 60 * m
	}
	var parts []string
	for _, unit := range []struct {
		long int64
		name string
	}{{3600, "h"}, {60, "min"}, {1, "s"}} {
		if n := s / unit.long; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", unit.name))
			s %= unit.long
		}
	}
	if parts == nil {
		return "0 s"
	}
	return strings.Join(parts, " ")
}
