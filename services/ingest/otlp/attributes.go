package otlp

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// origin is the sender of a record.
type origin struct{ app, release, instance string }

func originOf(resource pcommon.Resource) origin {
	a := resource.Attributes()
	return origin{
		app: shared(text(a, "service.name")), release: shared(text(a, "service.version")),
		instance: shared(text(a, "service.instance.id")),
	}
}

// maxShared is the longest text that many events share, in bytes: it is masked for each of
// them.
const maxShared = 2 << 10

// shared drops a text that is too long. It is not cut, because half a secret would not be
// recognised.
func shared(text string) string {
	if len(text) > maxShared {
		return ""
	}
	return text
}

// session is the visitor's session if the record names one, else the process.
func (o origin) session(attributes pcommon.Map) string {
	if id := text(attributes, "session.id"); id != "" {
		return id
	}
	return o.instance
}

// text is the first of the named attributes that is not empty, as text.
func text(attributes pcommon.Map, names ...string) string {
	for _, name := range names {
		if v, ok := attributes.Get(name); ok {
			if s := valueText(v); s != "" {
				return s
			}
		}
	}
	return ""
}

// valueText is a value as text: lists and maps are compact JSON.
func valueText(v pcommon.Value) string {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return v.Str()
	case pcommon.ValueTypeBool:
		return strconv.FormatBool(v.Bool())
	case pcommon.ValueTypeInt:
		return strconv.FormatInt(v.Int(), 10)
	case pcommon.ValueTypeDouble:
		return doubleText(v.Double())
	case pcommon.ValueTypeBytes:
		return bytesText(v.Bytes().AsRaw())
	case pcommon.ValueTypeMap, pcommon.ValueTypeSlice:
		if data, err := json.Marshal(jsonValue(v), json.Deterministic(true), lenient); err == nil {
			return string(data)
		}
		return "" // unreachable: jsonValue returns plain values
	default:
		return ""
	}
}

// bytesText is bytes as text, so that secrets in it are found, or as base64 if they are no
// text.
func bytesText(b []byte) string {
	if printable := func(r rune) bool { return r >= ' ' }; utf8.Valid(b) && bytes.ContainsFunc(b, printable) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// doubleText is a double as in JSON, or protobuf's name for what JSON lacks.
func doubleText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	default:
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
}

// exact bounds the whole numbers that a float64 holds without loss.
const exact = 1 << 53

// jsonValue is a value as plain JSON, for the masker. The guard has bounded its depth.
func jsonValue(v pcommon.Value) any {
	switch v.Type() {
	case pcommon.ValueTypeBool:
		return v.Bool()
	case pcommon.ValueTypeInt:
		if i := v.Int(); -exact <= i && i <= exact {
			return float64(i)
		}
	case pcommon.ValueTypeDouble:
		if f := v.Double(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	case pcommon.ValueTypeMap:
		out := make(map[string]any, v.Map().Len())
		for name, member := range v.Map().All() {
			out[name] = jsonValue(member)
		}
		return out
	case pcommon.ValueTypeSlice:
		out := make([]any, 0, v.Slice().Len())
		for _, element := range v.Slice().All() {
			out = append(out, jsonValue(element))
		}
		return out
	case pcommon.ValueTypeEmpty:
		return nil
	default: // text, bytes
	}
	return valueText(v)
}

// exception is the exception of a log record or a span, by the conventions.
type exception struct {
	kind, message, stack string
	// fingerprint is the grouping key that the sender chose.
	fingerprint string
	// recorded: the span has an exception, even if nothing more is known.
	recorded bool
}

const (
	exceptionType       = "exception.type"
	exceptionMessage    = "exception.message"
	exceptionStacktrace = "exception.stacktrace"
	// errorFingerprint is no convention of OpenTelemetry's, which has none. It is
	// Datadog's name, whose tracers and agents set it on logs and spans.
	errorFingerprint = "error.fingerprint"
)

func exceptionOf(attributes pcommon.Map) exception {
	return exception{
		kind:    text(attributes, exceptionType),
		message: text(attributes, exceptionMessage),
		stack:   text(attributes, exceptionStacktrace),

		fingerprint: text(attributes, errorFingerprint),
	}
}

// known reports whether anything is known about the exception.
func (x exception) known() bool { return x.kind != "" || x.message != "" || x.stack != "" }

func (x exception) String() string {
	switch {
	case x.kind != "" && x.message != "":
		return x.kind + ": " + x.message
	case x.kind != "" || x.message != "":
		return x.kind + x.message
	default: // most runtimes have the message in the first line
		line, _, _ := strings.Cut(x.stack, "\n")
		return line
	}
}
