package browserreports

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// report is one report.
type report struct {
	Type decoding.Text `json:"type"`
	Age  decoding.Text `json:"age"` // milliseconds
	URL  decoding.Text `json:"url"`
	Body body          `json:"body"`
}

// body is the used fields of the bodies of all types.
type body struct {
	position
	Message     decoding.Text `json:"message"`
	ID          decoding.Text `json:"id"`
	PolicyID    decoding.Text `json:"policyId"`
	Disposition decoding.Text `json:"disposition"`
	Reason      decoding.Text `json:"reason"`

	EffectiveDirective decoding.Text `json:"effectiveDirective"`
	ViolatedDirective  decoding.Text `json:"violatedDirective"`
	BlockedURL         decoding.Text `json:"blockedURL"`
	DocumentURL        decoding.Text `json:"documentURL"`
	Sample             decoding.Text `json:"sample"`
	Destination        decoding.Text `json:"destination"`

	// Only network errors have these.
	Type     decoding.Text `json:"type"` // of others as well
	Phase    decoding.Text `json:"phase"`
	Referrer decoding.Text `json:"referrer"`
	Method   decoding.Text `json:"method"`
	Status   decoding.Text `json:"status_code"`
	Elapsed  decoding.Text `json:"elapsed_time"` // milliseconds

	raw []byte
}

// position is a position in the code.
type position struct {
	File   decoding.Text `json:"sourceFile"`
	Line   decoding.Text `json:"lineNumber"`
	Column decoding.Text `json:"columnNumber"`
}

// UnmarshalJSONFrom reads any value; one that is no object has no members.
func (b *body) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil || v.Kind() != '{' {
		return err
	}
	type members body // without this method
	err = json.Unmarshal(v, (*members)(b), lenient)
	b.raw = bytes.Clone(v)
	return err
}

// maxBody is the longest body that is kept as an argument, in bytes.
const maxBody = 8 << 10

// report makes an event of a report.
func (d *decoder) report(r *report) {
	e := telemetry.Event{Time: d.timeOf(r.Age), URL: string(r.URL)}
	b := &r.Body
	switch r.Type {
	case "":
		d.out.LeftOut++
		return
	case "csp-violation":
		d.addViolation(e, violation{
			directive: first(b.EffectiveDirective, b.ViolatedDirective), blocked: b.BlockedURL, disposition: b.Disposition, sample: b.Sample, position: b.position,
		})
		return
	case "network-error":
		e.Kind, e.Network = telemetry.KindNetwork, b.request(string(r.URL))
		e.URL = string(b.Referrer) // the report's own is that of the request
	case "deprecation", "intervention":
		e.Kind, e.Log = telemetry.KindLog, &telemetry.Log{
			Level: telemetry.LevelWarn, Message: first(b.Message, b.ID, r.Type), Source: b.String(),
			Args: []any{map[string]any{"report": string(r.Type), "id": string(b.ID)}},
		}
	case "crash":
		e.Kind, e.Log = telemetry.KindLog, &telemetry.Log{
			Level: telemetry.LevelError, Message: "Page crashed: " + first(b.Reason, "for no known reason"), Args: b.args(),
		}
	default:
		if !isViolation(string(r.Type)) {
			e.Kind, e.Log = telemetry.KindLog, &telemetry.Log{Level: telemetry.LevelInfo, Message: "Report " + string(r.Type), Args: b.args()}
			break
		}
		e.Kind, e.Security = telemetry.KindSecurity, &telemetry.Security{Type: string(r.Type), Message: b.violationText(), BlockedURL: urlOf(b.BlockedURL)}
	}
	d.add(e)
}

// isViolation reports whether a type of reports is about a violated policy.
func isViolation(kind string) bool {
	switch kind {
	case "coep", "coop", "corp":
		return true
	}
	return strings.HasSuffix(kind, "-violation")
}

// request is the request of a network error. All types but those of HTTP itself, and ok,
// mean that there was no answer.
func (b *body) request(url string) *telemetry.Network {
	n := &telemetry.Network{Method: first(b.Method, "GET"), URL: url}
	answered := b.Type == "ok" || strings.HasPrefix(string(b.Type), "http.")
	if status, ok := number(b.Status); answered && ok && status >= 100 && status <= 999 {
		n.Status = int(status)
	}
	if ms, ok := number(b.Elapsed); ok && ms >= 0 {
		n.DurationMS = ms
	}
	if b.Type == "ok" {
		return n
	}
	n.Error = string(b.Type)
	if b.Phase != "" {
		n.Error = strings.TrimSpace(n.Error + " (" + string(b.Phase) + ")")
	}
	return n
}

// violationText describes which policy was violated and by what.
func (b *body) violationText() string {
	text := first(b.Message, b.PolicyID, b.Type, b.Destination)
	if b.PolicyID != "" && b.Message != "" {
		text = string(b.PolicyID) + ": " + text
	}
	if b.BlockedURL != "" && urlOf(b.BlockedURL) == "" {
		text = strings.TrimPrefix(text+": "+string(b.BlockedURL), ": ")
	}
	return text + atPosition(b.position) + reportOnly(b.Disposition)
}

// args is the whole body.
func (b *body) args() []any {
	if len(b.raw) == 0 || len(b.raw) > maxBody {
		return nil
	}
	var v map[string]any
	if json.Unmarshal(b.raw, &v, lenient) != nil || len(v) == 0 {
		return nil
	}
	return []any{v}
}

// String is file:line:column, as far as it is known.
func (p position) String() string {
	s := string(p.File)
	for _, n := range [...]decoding.Text{p.Line, p.Column} {
		if i, ok := number(n); s == "" || !ok || i <= 0 {
			break
		}
		s += ":" + string(n)
	}
	return s
}

func atPosition(p position) string {
	if p.File == "" {
		return ""
	}
	return " at " + p.String()
}

// reportOnly marks a policy that only reports, and blocked nothing.
func reportOnly(disposition decoding.Text) string {
	if disposition == "report" || disposition == "reporting" {
		return " (report only)"
	}
	return ""
}

// urlOf is a blocked URL; words such as inline and eval are none.
func urlOf(blocked decoding.Text) string {
	if !strings.Contains(string(blocked), "://") {
		return ""
	}
	return string(blocked)
}

func number(t decoding.Text) (float64, bool) {
	f, err := strconv.ParseFloat(string(t), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// first is the first text that is not empty.
func first(texts ...decoding.Text) string {
	return string(cmp.Or(texts...))
}
