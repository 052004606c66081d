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

// origin is who sent a record.
type origin struct{ app, release, instance string }

func originOf(resource pcommon.Resource) origin {
	a := resource.Attributes()
	return origin{
		app: shared(text(a, "service.name")), release: shared(text(a, "service.version")),
		instance: shared(text(a, "service.instance.id")),
	}
}

// maxShared is how long a text may be that many events have in common, in bytes.
// The intake looks through it for each of them.
const maxShared = 2 << 10

// shared leaves out a text that is too long. It isn't cut: half a secret would
// not be known for one.
func shared(text string) string {
	if len(text) > maxShared {
		return ""
	}
	return text
}

// session is the visitor's where the record names one, else the process's.
func (o origin) session(attributes pcommon.Map) string {
	if id := text(attributes, "session.id"); id != "" {
		return id
	}
	return o.instance
}

// text is the first of the attributes that is there and not empty, as text.
func text(attributes pcommon.Map, names ...string) string {
	for _, name := range names {
		if v, ok := attributes.Get(name); ok {
			if s := spell(v); s != "" {
				return s
			}
		}
	}
	return ""
}

// spell is a value as text: lists and maps are compact JSON.
func spell(v pcommon.Value) string {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return v.Str()
	case pcommon.ValueTypeBool:
		return strconv.FormatBool(v.Bool())
	case pcommon.ValueTypeInt:
		return strconv.FormatInt(v.Int(), 10)
	case pcommon.ValueTypeDouble:
		return spellDouble(v.Double())
	case pcommon.ValueTypeBytes:
		return spellBytes(v.Bytes().AsRaw())
	case pcommon.ValueTypeMap, pcommon.ValueTypeSlice:
		if data, err := json.Marshal(open(v), json.Deterministic(true), lenient); err == nil {
			return string(data)
		}
		return "" // unreachable: open gives nothing that can't be written
	default:
		return ""
	}
}

// spellBytes returns bytes as they are where they are text, so that the secrets
// in it are found, and as base64 where they are not.
func spellBytes(b []byte) string {
	if printable := func(r rune) bool { return r >= ' ' }; utf8.Valid(b) && bytes.ContainsFunc(b, printable) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// spellDouble is a double as JSON has it, or the name that protobuf's JSON has
// for what JSON has not.
func spellDouble(f float64) string {
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

// exact is the largest whole number up to which a float64 holds all of them.
const exact = 1 << 53

// open is a value as open JSON: what the intake looks through for secrets. The
// guard has bounded how deep it recurses.
func open(v pcommon.Value) any {
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
			out[name] = open(member)
		}
		return out
	case pcommon.ValueTypeSlice:
		out := make([]any, 0, v.Slice().Len())
		for _, element := range v.Slice().All() {
			out = append(out, open(element))
		}
		return out
	case pcommon.ValueTypeEmpty:
		return nil
	default: // text, bytes
	}
	return spell(v)
}

// exception is what the conventions call one, of a log record or a span.
type exception struct {
	kind, message, stack string
	// fingerprint is what the sender says that it is told apart by.
	fingerprint string
	// recorded says that a span has one, whatever is known of it.
	recorded bool
}

const (
	exceptionType       = "exception.type"
	exceptionMessage    = "exception.message"
	exceptionStacktrace = "exception.stacktrace"
	// errorFingerprint is no convention of OpenTelemetry's, which has none for it.
	// It is Datadog's name, whose tracers and agents put it on logs and spans.
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

// told says whether anything is known of it.
func (x exception) told() bool { return x.kind != "" || x.message != "" || x.stack != "" }

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
