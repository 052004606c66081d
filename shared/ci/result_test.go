package ci_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/ci"
)

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct{ in, field, text string }{
		"the contract's example": {in: `{"status":"failure","source":"github-actions","ref":"main","commit":"abc123",
			"summary":"12 tests passed, 2 failed","failures":[{"name":"test_login","message":"Expected 200, got 401"}],
			"url":"https://ci.example/run/123","duration_ms":45000}`},
		"only the status":          {in: `{"status":"success"}`},
		"empty failures":           {in: `{"status":"success","failures":[]}`},
		"null failures":            {in: `{"status":"success","failures":null}`},
		"unknown fields":           {in: `{"status":"error","runner":{"os":"linux"}}`},
		"a lone surrogate":         {in: `{"status":"error","summary":"\ud83d"}`},
		"many failures":            {in: `{"status":"failure","failures":[` + strings.Repeat(`{},`, 20_000) + `{}]}`},
		"no status":                {in: `{}`, field: "status", text: "success, failure, error"},
		"another status":           {in: `{"status":"cancelled"}`, field: "status", text: "success, failure, error"},
		"another source":           {in: `{"status":"error","source":"jenkins"}`, field: "source", text: "github-actions, gitlab-ci, custom"},
		"a status of another type": {in: `{"status":1}`, field: "status", text: "a string"},
		"a duration in words":      {in: `{"status":"error","duration_ms":"45s"}`, field: "duration_ms", text: "a number"},
		"a duration too large":     {in: `{"status":"error","duration_ms":1e999}`, field: "duration_ms", text: "milliseconds, no larger than 1.8e308"},
		"a negative duration":      {in: `{"status":"error","duration_ms":-1}`, field: "duration_ms", text: "negative"},
		"failures as a text":       {in: `{"status":"error","failures":"two"}`, field: "failures", text: "array"},
		"a failure as a text":      {in: `{"status":"error","failures":["a"]}`, field: "failures.0", text: "object"},
		"a failure's name":         {in: `{"status":"error","failures":[{"name":7}]}`, field: "failures.0.name", text: "a string"},
		"an array":                 {in: `[]`, text: "JSON object"},
		"half an object":           {in: `{"status":`, text: "malformed"},
		"nothing":                  {in: ``, text: "malformed"},
		"two objects":              {in: `{"status":"error"}{}`, text: "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ci.Decode([]byte(c.in))
			if c.text == "" {
				if err != nil {
					t.Fatal(err)
				}
				if r.Source == "" {
					t.Fatal("Source is empty, want a default")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("error %v, want one that says %q", err, c.text)
			}
			var f *ci.FieldError
			if errors.As(err, &f) != (c.field != "") || f != nil && f.Field != c.field {
				t.Fatalf("error %v, want field %q", err, c.field)
			}
		})
	}
}

// TestOnlyNumbersOfJSON checks that infinity and NaN are refused: decoders of other formats multiply
// numbers, and JSON can't represent these two.
func TestOnlyNumbersOfJSON(t *testing.T) {
	for _, v := range []float64{math.Inf(1), math.NaN()} {
		var wrong *ci.FieldError
		err := ci.Result{Status: ci.StatusSuccess, Source: ci.SourceCustom, DurationMS: v}.Validate()
		if !errors.As(err, &wrong) || wrong.Field != "duration_ms" {
			t.Errorf("Validate with a duration of %v = %v, want an error of duration_ms", v, err)
		}
	}
}

func TestKey(t *testing.T) {
	base := ci.Result{Source: "custom", Commit: "abc", Name: "build", Ref: "main", URL: "https://ci/1"}
	same := base
	same.Ref, same.URL, same.Status = "other", "https://ci/2", "failure"
	if base.Key() != same.Key() {
		t.Errorf("Key with another ref, url and status = %q, want %q", same.Key(), base.Key())
	}
	for name, change := range map[string]func(*ci.Result){
		"source": func(r *ci.Result) { r.Source = "gitlab-ci" },
		"commit": func(r *ci.Result) { r.Commit = "abd" },
		"name":   func(r *ci.Result) { r.Name = "test" },
	} {
		other := base
		change(&other)
		if base.Key() == other.Key() {
			t.Errorf("Key with another %s = %q, want another", name, other.Key())
		}
	}
	base.Commit = ""
	other := base
	other.URL = "https://ci/2"
	if base.Key() == other.Key() {
		t.Errorf("Key without a commit, with another url = %q, want another", other.Key())
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"status":"failure","failures":[{"name":"a","message":"b"}],"duration_ms":1e3}`))
	f.Add([]byte(`{"status":[[[[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ci.Decode(data)
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("Validate after Decode = %v, want nil", err)
		}
	})
}
