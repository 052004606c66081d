package ingest

import (
	"bytes"
	"errors"
	"net/http"
	"slices"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// nativeBodies are in Tocsin's own format.
var nativeBodies = bodyFormat{media: []string{typeJSON, typeNDJSON, typeText}, isNative: true}

// decodeNativeEvents decodes one event, an array of events, or one event a line. Only
// maxBody bounds their number: it has room for 28,000 of the smallest. If one event of a
// batch is invalid, the whole batch is refused.
func decodeNativeEvents(_ *http.Request, b *body) (decodedEvents, error) {
	form := telemetry.FormAny
	switch b.media {
	case typeJSON:
		form = telemetry.FormJSON
	case typeNDJSON:
		form = telemetry.FormNDJSON
	}
	events, err := telemetry.Decode(form, b.data)
	if err != nil {
		refusal := httpserve.Refuse(http.StatusBadRequest, err.Error())
		var field *telemetry.FieldError
		if isBatch(b.media, b.data) && errors.As(err, &field) && field.Index >= 0 {
			refusal = refusal.At(field.Index)
		}
		return decodedEvents{}, refusal
	}
	if i := slices.IndexFunc(events, hasReservedApp); i >= 0 {
		return decodedEvents{}, httpserve.Refuse(http.StatusBadRequest,
			`app must not be "`+telemetry.ReservedApp+`", which is reserved for what Tocsin reports about itself: any other name is allowed`).At(i)
	}
	return decodedEvents{events: events, isValid: true}, nil
}

// hasReservedApp reports whether the app of an event is the reserved one once hidden
// characters are removed.
func hasReservedApp(e telemetry.Event) bool { return telemetry.IsReserved(sanitize.Strip(e.App)) }

// isBatch reports whether a body may hold more than one event: every body but a JSON
// object.
func isBatch(media string, data []byte) bool {
	return media != typeJSON || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("["))
}

// decodeNativeResult decodes one CI result.
func decodeNativeResult(_ *http.Request, b *body) (decodedResult, error) {
	data := bytes.TrimSpace(b.data)
	if len(data) == 0 {
		return decodedResult{}, errors.New("the body is empty: send one CI result, a JSON object with status")
	}
	if b.media == typeNDJSON && bytes.ContainsRune(data, '\n') {
		return decodedResult{}, errors.New("send one CI result, on one line")
	}
	result, err := ci.Decode(data)
	return decodedResult{result: result}, err
}
