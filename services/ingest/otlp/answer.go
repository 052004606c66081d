package otlp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// rejectedNames are the JSON names of the count in each signal's partial success. In
// protobuf the count is field 1 of all of them, and the message is field 2.
var rejectedNames = map[Signal]string{
	Logs: "rejectedLogRecords", Traces: "rejectedSpans", Metrics: "rejectedDataPoints",
}

// Answer returns the response to an accepted export request. It is empty if every item was
// accepted; else it counts the rejected items, which the sender must not send again, and
// gives the reason.
func Answer(signal Signal, enc Encoding, d Decoded) []byte {
	switch {
	case d.Rejected == 0 && enc == JSON:
		return []byte("{}")
	case d.Rejected == 0:
		return []byte{}
	case enc == JSON: // 64-bit integers are text in protobuf's JSON
		body := append([]byte(`{"partialSuccess":{"`), rejectedNames[signal]...)
		body = append(strconv.AppendInt(append(body, `":"`...), int64(d.Rejected), 10), `","errorMessage":`...)
		return append(quote(body, d.Reason), "}}"...)
	}
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(d.Rejected))
	partial = appendText(partial, 2, d.Reason)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
}

// Status returns the body of a refusal: a google.rpc.Status. In JSON it also has the fields
// "ok" and "error", as the refusals of the other endpoints do.
func Status(enc Encoding, httpStatus int, text string) []byte {
	code := rpcCode(httpStatus)
	if enc == JSON {
		body := quote([]byte(`{"ok":false,"error":`), text)
		body = strconv.AppendUint(append(body, `,"code":`...), code, 10)
		return append(quote(append(body, `,"message":`...), text), '}')
	}
	body := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), code)
	return appendText(body, 2, text)
}

func appendText(body []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(body, number, protowire.BytesType), strings.ToValidUTF8(text, "\ufffd"))
}

func quote(body []byte, text string) []byte {
	// AppendQuote fails only for invalid UTF-8, which ToValidUTF8 has replaced.
	body, _ = jsontext.AppendQuote(body, strings.ToValidUTF8(text, "\ufffd"))
	return body
}

// rpcCode returns the google.rpc.Code for an HTTP status.
func rpcCode(httpStatus int) uint64 {
	switch httpStatus {
	case http.StatusUnauthorized:
		return 16 // UNAUTHENTICATED
	case http.StatusForbidden:
		return 7 // PERMISSION_DENIED
	case http.StatusNotFound:
		return 5 // NOT_FOUND
	case http.StatusMethodNotAllowed:
		return 12 // UNIMPLEMENTED
	case http.StatusRequestTimeout:
		return 4 // DEADLINE_EXCEEDED
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return 8 // RESOURCE_EXHAUSTED
	case http.StatusInternalServerError:
		return 13 // INTERNAL
	case http.StatusServiceUnavailable:
		return 14 // UNAVAILABLE
	default:
		return 3 // INVALID_ARGUMENT
	}
}
