// Package conclusion decides what the last agent of a chain may claim: it reads the arguments of
// the tool "conclude", looks up the quotes of the evidence in the texts that the model saw, and
// lowers a confidence that the evidence does not support. It also decides what of a conclusion
// may enter an alert.
//
// It is pure: it knows no model, no bus and no session.
package conclusion

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Confidence is how sure a conclusion is of its cause.
type Confidence string

// The confidences, from the highest to the lowest.
const (
	Proven   Confidence = "proven"
	Likely   Confidence = "likely"
	Unproven Confidence = "unproven"
)

// Conclusion is the result of an investigation.
type Conclusion struct {
	Confidence Confidence `json:"confidence"`
	// Structured reports whether the agent called the tool. Without it, only Confidence is set.
	Structured bool   `json:"structured"`
	Cause      string `json:"cause,omitempty"`
	// Evidence is at most MaxEvidence pieces.
	Evidence []Evidence `json:"evidence,omitempty"`
	// RuledOut is at most MaxRuledOut hypotheses.
	RuledOut []RuledOut `json:"ruled_out,omitempty"`
	Impact   string     `json:"impact,omitempty"`
	// NextSteps is at most MaxNextSteps texts.
	NextSteps       []string `json:"next_steps,omitempty"`
	SuggestedChange *Change  `json:"suggested_change,omitempty"`
}

// Evidence is a claim, and the quote that supports it.
type Evidence struct {
	Claim string `json:"claim"`
	// CallID is the id of a tool call or of a fact.
	CallID string `json:"call_id"`
	Quote  string `json:"quote"`
	// Supported reports whether the text of CallID contains the quote. Only [Check] sets it.
	Supported bool `json:"supported"`
}

// RuledOut is a hypothesis that a result contradicts.
type RuledOut struct {
	Hypothesis string `json:"hypothesis"`
	CallID     string `json:"call_id,omitempty"`
}

// Change is a proposed change of one file.
type Change struct {
	File        string `json:"file"`
	Description string `json:"description"`
}

// Prose returns the conclusion of an agent that answered in prose.
func Prose() Conclusion { return Conclusion{Confidence: Unproven} }

// Bounds on the arguments. [Parse] refuses arguments beyond them. Texts are counted in characters.
const (
	MaxArguments = 256 << 10 // bytes of JSON
	MaxEvidence  = 20
	MaxRuledOut  = 20
	MaxNextSteps = 20
	MaxText      = 4000
	MaxCallID    = 200
	MinQuote     = 8
	MaxQuote     = 500
)

// arguments is the JSON form of the tool's arguments: a conclusion without what [Check] decides.
type arguments struct {
	Cause      string     `json:"cause"`
	Confidence Confidence `json:"confidence"`
	Evidence   []struct {
		Claim  string `json:"claim"`
		CallID string `json:"call_id"`
		Quote  string `json:"quote"`
	} `json:"evidence"`
	RuledOut        []RuledOut `json:"ruled_out"`
	Impact          string     `json:"impact"`
	NextSteps       []string   `json:"next_steps"`
	SuggestedChange *Change    `json:"suggested_change"`
}

// Parse reads the arguments of the tool. Its errors are for the model: they name everything that
// has to change. No piece of evidence is supported yet.
func Parse(text string) (Conclusion, error) {
	if len(text) > MaxArguments {
		return Conclusion{}, fmt.Errorf("the arguments have %d bytes; send at most %d", len(text), MaxArguments)
	}
	if !utf8.ValidString(text) {
		return Conclusion{}, errors.New("the arguments are not valid UTF-8")
	}
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") {
		return Conclusion{}, errors.New("the arguments are not a JSON object")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	var a arguments
	if err := dec.Decode(&a); err != nil {
		return Conclusion{}, fmt.Errorf("read the arguments: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Conclusion{}, errors.New("the arguments go on after the end of the JSON object")
	}
	if err := a.validate(); err != nil {
		return Conclusion{}, err
	}
	c := Conclusion{
		Structured: true, Cause: a.Cause, Confidence: a.Confidence, RuledOut: a.RuledOut,
		Impact: a.Impact, NextSteps: a.NextSteps, SuggestedChange: a.SuggestedChange,
	}
	for _, e := range a.Evidence {
		c.Evidence = append(c.Evidence, Evidence{Claim: e.Claim, CallID: e.CallID, Quote: e.Quote})
	}
	return c, nil
}

// problems collects everything that is wrong with the arguments.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// text checks a text that has shortest to longest characters.
func (p *problems) text(name, text string, shortest, longest int) {
	n := utf8.RuneCountInString(text)
	switch {
	case shortest > 0 && strings.TrimSpace(text) == "":
		p.add("%s is missing or empty", name)
	case n < shortest || n > longest:
		p.add("%s has %d characters; it needs %d to %d", name, n, shortest, longest)
	}
}

func (p *problems) count(name string, n, most int) {
	if n > most {
		p.add("%s has %d items; send at most %d", name, n, most)
	}
}

func (a *arguments) validate() error {
	var p problems
	p.text("cause", a.Cause, 1, MaxText)
	switch a.Confidence {
	case Proven, Likely, Unproven:
	default:
		p.add("confidence is %.40q; it is one of proven, likely, unproven", string(a.Confidence))
	}
	p.count("evidence", len(a.Evidence), MaxEvidence)
	for i, e := range a.Evidence[:min(len(a.Evidence), MaxEvidence)] {
		p.text(fmt.Sprintf("evidence[%d].claim", i), e.Claim, 1, MaxText)
		p.text(fmt.Sprintf("evidence[%d].call_id", i), e.CallID, 1, MaxCallID)
		p.text(fmt.Sprintf("evidence[%d].quote", i), e.Quote, MinQuote, MaxQuote)
	}
	p.count("ruled_out", len(a.RuledOut), MaxRuledOut)
	for i, r := range a.RuledOut[:min(len(a.RuledOut), MaxRuledOut)] {
		p.text(fmt.Sprintf("ruled_out[%d].hypothesis", i), r.Hypothesis, 1, MaxText)
		p.text(fmt.Sprintf("ruled_out[%d].call_id", i), r.CallID, 0, MaxCallID)
	}
	p.text("impact", a.Impact, 0, MaxText)
	p.count("next_steps", len(a.NextSteps), MaxNextSteps)
	for i, step := range a.NextSteps[:min(len(a.NextSteps), MaxNextSteps)] {
		p.text(fmt.Sprintf("next_steps[%d]", i), step, 1, MaxText)
	}
	if s := a.SuggestedChange; s != nil {
		p.text("suggested_change.file", s.File, 1, MaxText)
		p.text("suggested_change.description", s.Description, 1, MaxText)
	}
	return errors.Join(p...)
}
