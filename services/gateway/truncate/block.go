package truncate

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// MaxText is the longest text that is added to a model's context unasked, in bytes. The
// agents accept 10,000 characters, and every later turn pays for them.
const MaxText = 4096

// reductions make an alert smaller, each more than the one before.
var reductions = []func(alert.Alert) alert.Alert{
	func(a alert.Alert) alert.Alert { return a },
	func(a alert.Alert) alert.Alert { a.Detail = sanitize.Cut(a.Detail, 500); return a },
	func(a alert.Alert) alert.Alert { a.Detail = sanitize.Cut(a.Detail, 150); return a },
	essential,
}

// essential reduces an alert to what a reader needs. Names come from outside and are cut
// where they are longer than Tocsin's own. A dedup key is whole or absent: a silence for
// part of a key would match nothing.
func essential(a alert.Alert) alert.Alert {
	const maxName, maxKey = 64, 256 // characters, bytes
	a.Detail, a.URL, a.Context = sanitize.Cut(a.Detail, 100), sanitize.Cut(a.URL, 100), nil
	a.AlsoResolves, a.Reason = nil, sanitize.Cut(a.Reason, 200)
	a.Investigation = essentialInvestigation(a.Investigation, 300)
	if len(a.DedupKey) > maxKey {
		a.DedupKey = ""
	}
	for _, name := range []*string{&a.ID, &a.App, &a.Source, &a.CorrelationID, &a.Revises, &a.Resolves, &a.InhibitedBy, (*string)(&a.Category)} {
		*name = sanitize.Cut(*name, maxName)
	}
	return a
}

// minimal reduces an alert that does not fit even by itself: a long one must not hide
// the alerts after it.
func minimal(a alert.Alert) alert.Alert {
	a = essential(a)
	a.Detail, a.URL, a.DedupKey, a.Reason = "", "", "", ""
	a.Investigation = essentialInvestigation(a.Investigation, 100)
	return a
}

// essentialInvestigation reduces an investigation to its outcome, with a summary of at most
// limit characters. The suggested change is left out: part of a proposal misleads.
func essentialInvestigation(i *alert.Investigation, limit int) *alert.Investigation {
	if i == nil {
		return nil
	}
	return &alert.Investigation{
		SessionID: i.SessionID, Status: i.Status, Confidence: i.Confidence,
		Summary: sanitize.Cut(i.Summary, limit), Reason: sanitize.Cut(i.Reason, limit),
	}
}

// Block returns [alert.Block] of the alerts in at most maxBytes. It cuts details first;
// then it leaves out alerts at the end, and counts them in a line together with others,
// the number of alerts that the caller left out. It returns "" if there are neither
// alerts nor others.
func Block(alerts []alert.Alert, omitted, maxBytes int) (string, error) {
	for _, reduce := range reductions {
		smaller := make([]alert.Alert, len(alerts))
		for i, a := range alerts {
			smaller[i] = reduce(a)
		}
		if block, err := renderBlock(smaller, omitted); err != nil || len(block) <= maxBytes {
			return block, err
		}
	}
	smallest := make([]alert.Alert, len(alerts))
	for i, a := range alerts {
		smallest[i] = essential(a)
	}
	var failed error
	tooMany := sort.Search(max(len(alerts)-1, 0), func(i int) bool {
		block, err := renderBlock(smallest[:i+1], omitted+len(alerts)-i-1)
		failed = errors.Join(failed, err)
		return err != nil || len(block) > maxBytes
	})
	if failed != nil {
		return "", failed
	}
	if n := tooMany; n > 0 {
		return renderBlock(smallest[:n], omitted+len(alerts)-n)
	}
	if len(alerts) > 0 {
		if block, err := renderBlock([]alert.Alert{minimal(alerts[0])}, omitted+len(alerts)-1); err != nil || len(block) <= maxBytes {
			return block, err
		}
	}
	return renderBlock(nil, omitted+len(alerts))
}

// renderBlock returns alert.Block with the line that counts what is left out. Agents put the
// block between tags, which a text from outside must not close: < occurs only inside
// JSON strings, and is written as an escape there.
func renderBlock(shown []alert.Alert, omitted int) (string, error) {
	block, err := alert.Block(shown)
	block = strings.ReplaceAll(block, "<", `\u003c`)
	if err != nil || omitted == 0 {
		return block, err
	}
	more := fmt.Sprintf(`%d more left out here: call observe {"what":"alerts"} to list them.`, omitted)
	if block == "" {
		return more, nil
	}
	heading, rest, _ := strings.Cut(block, "\n")
	return heading + "\n" + more + "\n" + rest, nil
}
