package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// pages is what a rule for regressions remembers of the pages of an app.
type pages interface {
	Load(app, url string, vitals *telemetry.Vitals, now time.Time) []finding.Finding
	Baselines() []regression.Baseline
	BaselinesOf(page string) []regression.Baseline
	Names() []string
	Len() int
	Evicted() uint64
	Size() int
	Save(w *snapshot.Writer)
}

func newPages(rule rules.Regression) pages {
	if rule == rules.Confirmed {
		return regression.NewConfirmed()
	}
	return regression.New()
}

// savePages writes what a rule remembers, and which one it is.
func savePages(rule rules.Regression, p pages, w *snapshot.Writer) {
	w.Len(int(rule))
	p.Save(w)
}

// restorePages reads it for the rule that holds from now on: what the other has
// learned goes on with it, and what the other found it ends. Errors are in r.
func restorePages(rule rules.Regression, r *snapshot.Reader) pages {
	saved := rules.Spec
	if r.Has(snapshot.Trust) {
		saved = rules.Regression(r.UpTo(int(rules.Confirmed)))
	}
	if saved == rules.Confirmed {
		p := regression.RestoreConfirmed(r)
		if rule == rules.Confirmed {
			return p
		}
		return p.Pages()
	}
	p := regression.Restore(r)
	if rule == rules.Confirmed {
		return p.Confirmed()
	}
	return p
}
