package ingest

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
	typeText   = "text/plain"
)

// ours is how the contract has it.
var ours = dialect{media: []string{typeJSON, typeNDJSON, typeText}, ours: true}

// events takes one event, an array of events, or one event a line: as many as
// maxBody has room for, which is some 28,000 of the smallest. Of a batch with a
// wrong event nothing is taken.
func (h *handler) events(r *http.Request) reply {
	return h.takeEvents(r, ours, func(media string, data []byte) (found, error) {
		events, err := telemetry.Decode(form(media), data)
		if err != nil {
			return found{}, refusal{refuseEvents(err, isBatch(media, data))}
		}
		if i := slices.IndexFunc(events, claimsToBeTocsin); i >= 0 {
			return found{}, refusal{refuseAt(http.StatusBadRequest, `app must not be "`+telemetry.ReservedApp+`", which is reserved for what Tocsin reports about itself: any other name is allowed`, i)}
		}
		return found{events: events, checked: true}, nil
	})
}

// claimsToBeTocsin reports whether an event has the reserved app, once what nobody can
// see of its name is left out.
func claimsToBeTocsin(e telemetry.Event) bool { return telemetry.IsReserved(sanitize.Strip(e.App)) }

// isBatch says whether a body is meant to hold more than one event: all are but
// a JSON object.
func isBatch(media string, data []byte) bool {
	return media != typeJSON || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("["))
}

func form(media string) telemetry.Form {
	switch media {
	case typeJSON:
		return telemetry.FormJSON
	case typeNDJSON:
		return telemetry.FormNDJSON
	default:
		return telemetry.FormAny
	}
}

// stamp is a time as events carry it: UTC, milliseconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
