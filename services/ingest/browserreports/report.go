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

// body has the used fields of the bodies of all types of reports.
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

	Type decoding.Text `json:"type"`
	// Only network errors have these.
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

// UnmarshalJSONFrom reads any value. All but objects leave the fields empty.
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

// report adds the event of a report.
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
		e.URL = string(b.Referrer) // the report's URL is that of the request, not of the page
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

// isViolation reports whether reports of this type are about a violated policy.
func isViolation(kind string) bool {
	switch kind {
	case "coep", "coop", "corp":
		return true
	}
	return strings.HasSuffix(kind, "-violation")
}

// request returns the request of a network error. There was an answer only if its type is
// ok or one of HTTP.
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

// args returns the whole body as an argument, or none if it is too long.
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

// String returns file:line:column, as far as it is known.
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

// reportOnly returns a note for a policy that reports violations and blocks nothing.
func reportOnly(disposition decoding.Text) string {
	if disposition == "report" || disposition == "reporting" {
		return " (report only)"
	}
	return ""
}

// urlOf returns what was blocked if it is a URL. It is "" for words such as inline and
// eval.
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

// first returns the first text that is not empty.
func first(texts ...decoding.Text) string {
	return string(cmp.Or(texts...))
}
