package truncate

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// MaxText is the longest text that is added to a model's context, in bytes. The
// clients take 10,000 characters, and it is paid for with every turn after.
const MaxText = 4096

// shrinks make alerts smaller, each more than the one before.
var shrinks = []func(alert.Alert) alert.Alert{
	func(a alert.Alert) alert.Alert { return a },
	func(a alert.Alert) alert.Alert { a.Detail = sanitize.Cut(a.Detail, 500); return a },
	func(a alert.Alert) alert.Alert { a.Detail = sanitize.Cut(a.Detail, 150); return a },
	bare,
}

// bare is what an alert can't do without. Its names come from outside, and are
// cut where they are longer than ours ever are. A dedup key is whole or not there:
// who silences by a part of one silences nothing, and is not told so.
func bare(a alert.Alert) alert.Alert {
	const maxName, maxKey = 64, 256 // characters, bytes
	a.Detail, a.URL, a.Context = sanitize.Cut(a.Detail, 100), sanitize.Cut(a.URL, 100), nil
	a.AlsoResolves, a.Reason = nil, sanitize.Cut(a.Reason, 200)
	if len(a.DedupKey) > maxKey {
		a.DedupKey = ""
	}
	for _, name := range []*string{&a.ID, &a.App, &a.Source, &a.CorrelationID, &a.Revises, &a.Resolves, &a.InhibitedBy, (*string)(&a.Category)} {
		*name = sanitize.Cut(*name, maxName)
	}
	return a
}

// barest is what is left of one alert that has no room by itself: what it says
// must not keep it, and all those after it, out of sight.
func barest(a alert.Alert) alert.Alert {
	a = bare(a)
	a.Detail, a.URL, a.DedupKey, a.Reason = "", "", "", ""
	return a
}

// Block is alert.Block of the alerts, in the order given, in at most room bytes.
// What would be too long loses detail first; then those at the end are left out
// and counted in a line, together with the others that can't be shown. Without
// any of either it is empty.
func Block(alerts []alert.Alert, others, room int) (string, error) {
	for _, shrink := range shrinks {
		smaller := make([]alert.Alert, len(alerts))
		for i, a := range alerts {
			smaller[i] = shrink(a)
		}
		if block, err := blockOf(smaller, others); err != nil || len(block) <= room {
			return block, err
		}
	}
	smallest := make([]alert.Alert, len(alerts))
	for i, a := range alerts {
		smallest[i] = bare(a)
	}
	var failed error
	tooMany := sort.Search(max(len(alerts)-1, 0), func(i int) bool {
		block, err := blockOf(smallest[:i+1], others+len(alerts)-i-1)
		failed = errors.Join(failed, err)
		return err != nil || len(block) > room
	})
	if failed != nil {
		return "", failed
	}
	if n := tooMany; n > 0 {
		return blockOf(smallest[:n], others+len(alerts)-n)
	}
	if len(alerts) > 0 {
		if block, err := blockOf([]alert.Alert{barest(alerts[0])}, others+len(alerts)-1); err != nil || len(block) <= room {
			return block, err
		}
	}
	return blockOf(nil, others+len(alerts))
}

// blockOf is alert.Block with the line that counts what is left out. The clients
// put it between tags of theirs, which a text from outside must not be able to
// close: < stands only in JSON's strings, and is written as JSON may write it.
func blockOf(shown []alert.Alert, others int) (string, error) {
	block, err := alert.Block(shown)
	block = strings.ReplaceAll(block, "<", `\u003c`)
	if err != nil || others == 0 {
		return block, err
	}
	more := fmt.Sprintf(`%d more left out here: observe {"what":"alerts"} lists them.`, others)
	if block == "" {
		return more, nil
	}
	heading, rest, _ := strings.Cut(block, "\n")
	return heading + "\n" + more + "\n" + rest, nil
}
