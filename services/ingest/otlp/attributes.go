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

// origin is the process that a record comes from, as its resource describes it.
type origin struct{ app, release, instance string }

func originOf(resource pcommon.Resource) origin {
	a := resource.Attributes()
	return origin{
		app: dropIfLong(text(a, "service.name")), release: dropIfLong(text(a, "service.version")),
		instance: dropIfLong(text(a, "service.instance.id")),
	}
}

// maxShared is the longest text that many events may share, in bytes: ingest masks it again
// for each of them.
const maxShared = 2 << 10

// dropIfLong returns the text, or "" if it is longer than maxShared. It does not cut the
// text, because the masker would not recognize half a secret.
func dropIfLong(text string) string {
	if len(text) > maxShared {
		return ""
	}
	return text
}

// session returns the visitor's session if the record names one, else the process.
func (o origin) session(attributes pcommon.Map) string {
	if id := text(attributes, "session.id"); id != "" {
		return id
	}
	return o.instance
}

// text returns the first of the named attributes that is not empty, as text.
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

// valueText returns a value as text: lists and maps are compact JSON.
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

// bytesText returns bytes as they are if they are text, so that secrets in it are found;
// else as base64.
func bytesText(b []byte) string {
	if printable := func(r rune) bool { return r >= ' ' }; utf8.Valid(b) && bytes.ContainsFunc(b, printable) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// doubleText returns a double as in JSON, or protobuf's name for a value that JSON lacks.
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

// maxExact is the largest whole number up to which a float64 holds all without loss.
const maxExact = 1 << 53

// jsonValue returns a value as plain JSON, for the masker. The guard has bounded its depth.
func jsonValue(v pcommon.Value) any {
	switch v.Type() {
	case pcommon.ValueTypeBool:
		return v.Bool()
	case pcommon.ValueTypeInt:
		if i := v.Int(); -maxExact <= i && i <= maxExact {
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

// exception is the exception of a log record or a span event, by the semantic conventions.
type exception struct {
	kind, message, stack string
	// fingerprint is the grouping key that the sender chose.
	fingerprint string
	// recorded is set if the span has an exception event, even an empty one.
	recorded bool
}

const (
	exceptionType       = "exception.type"
	exceptionMessage    = "exception.message"
	exceptionStacktrace = "exception.stacktrace"
	// errorFingerprint is set by Datadog's tracers and agents on logs and spans.
	// OpenTelemetry has no convention for a fingerprint.
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

// known reports whether the exception has a type, a message or a stack.
func (x exception) known() bool { return x.kind != "" || x.message != "" || x.stack != "" }

func (x exception) String() string {
	switch {
	case x.kind != "" && x.message != "":
		return x.kind + ": " + x.message
	case x.kind != "" || x.message != "":
		return x.kind + x.message
	default: // the first line of a stack has the message in most runtimes
		line, _, _ := strings.Cut(x.stack, "\n")
		return line
	}
}
