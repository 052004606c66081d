// Package ci defines the result of one run of a pipeline or job for one commit: its form, what
// is valid, and which results are the newest.
//
// It knows no HTTP and no foreign format: ingest converts those of GitHub and GitLab.
package ci

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The statuses of a Result.
const (
	StatusSuccess = "success"
	StatusFailure = "failure"
	StatusError   = "error"
)

// The sources of a Result.
const (
	SourceGitHub = "github-actions"
	SourceGitLab = "gitlab-ci"
	SourceCustom = "custom"
)

// Result is one CI result (docs/reference/ci-results.md).
type Result struct {
	Status string `json:"status"`
	// Source is the CI system; empty means custom.
	Source string `json:"source"`
	Ref    string `json:"ref,omitempty"`
	Commit string `json:"commit,omitempty"`
	// Name is the pipeline or job.
	Name     string    `json:"name,omitempty"`
	Summary  string    `json:"summary,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	URL      string    `json:"url,omitempty"`
	// DurationMS is how long the run took, in milliseconds.
	DurationMS float64 `json:"duration_ms,omitzero"`
}

// Failure is one failed case of a run.
type Failure struct {
	Name    string `json:"name"`
	Message string `json:"message,omitempty"`
}

// FieldError is returned for an invalid field, with what is allowed.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + " " + e.Reason }

// Decode decodes one result. Unknown fields are ignored, and a missing source is custom. Only
// the size of data bounds the number of failures. The error is a *[FieldError] for an invalid
// field.
func Decode(data []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(data, &r, jsontext.AllowInvalidUTF8(true)); err != nil {
		return Result{}, decodeError(err)
	}
	if r.Source == "" {
		r.Source = SourceCustom
	}
	return r, r.Validate()
}

// decodeError names the field where the decoder knows it.
func decodeError(err error) error {
	var typed *json.SemanticError
	if errors.As(err, &typed) && typed.JSONPointer != "" {
		field := strings.ReplaceAll(strings.TrimPrefix(string(typed.JSONPointer), "/"), "/", ".")
		reason := "must be " + expectedType(field)
		if errors.Is(err, strconv.ErrRange) {
			reason += ", no larger than 1.8e308"
		}
		return &FieldError{Field: field, Reason: reason}
	}
	if errors.As(err, &typed) {
		return errors.New("a CI result must be a JSON object")
	}
	return fmt.Errorf("malformed JSON: %w", err)
}

func expectedType(field string) string {
	switch {
	case field == "duration_ms":
		return "a number of milliseconds"
	case field == "failures":
		return "an array of objects with name and message"
	case strings.HasPrefix(field, "failures.") && strings.Count(field, ".") == 1:
		return "an object with name and message"
	default:
		return "a string"
	}
}

// Validate returns a *[FieldError] for what is not allowed, or nil.
func (r Result) Validate() error {
	if err := oneOf("status", r.Status, StatusSuccess, StatusFailure, StatusError); err != nil {
		return err
	}
	if err := oneOf("source", r.Source, SourceGitHub, SourceGitLab, SourceCustom); err != nil {
		return err
	}
	if r.DurationMS < 0 {
		return &FieldError{Field: "duration_ms", Reason: "must not be negative"}
	}
	if math.IsInf(r.DurationMS, 0) || math.IsNaN(r.DurationMS) {
		return &FieldError{Field: "duration_ms", Reason: "must be a finite number"}
	}
	return nil
}

func oneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return &FieldError{Field: field, Reason: "must be one of " + strings.Join(allowed, ", ")}
}

// Key is equal for results of the same run: source, commit and name, and ref and URL in place of
// a missing commit.
func (r Result) Key() string {
	commit := r.Commit
	if commit == "" {
		commit = "ref " + r.Ref + " url " + r.URL
	}
	return r.Source + "\x00" + commit + "\x00" + r.Name
}
