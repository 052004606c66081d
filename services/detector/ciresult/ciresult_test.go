package ciresult_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/detector/ciresult"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

func TestTimeline(t *testing.T) {
	type result = ci.Result
	steps := []struct {
		result  result
		revises string
		key     string
	}{
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "", "ci:custom:abc:build:failure:1"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "id0", "ci:custom:abc:build:failure:1"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build", Summary: "x"}, "id0", "ci:custom:abc:build:failure:1"},
		{result{Status: "success", Source: "custom", Commit: "abc", Name: "build"}, "", "ci:custom:abc:build:success:2"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "", "ci:custom:abc:build:failure:3"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "id4", "ci:custom:abc:build:failure:3"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "lint"}, "", "ci:custom:abc:lint:failure:1"},
		{result{Status: "failure", Source: "gitlab-ci", Commit: "abc", Name: "build"}, "", "ci:gitlab-ci:abc:build:failure:1"},
		{result{Status: "failure", Source: "custom", Commit: "abd", Name: "build"}, "", "ci:custom:abd:build:failure:1"},
		{result{Status: "failure", Source: "custom", Ref: "main", URL: "http://ci/1"}, "", "ci:custom:main http://ci/1::failure:1"},
		{result{Status: "failure", Source: "custom", Ref: "main", URL: "http://ci/2"}, "", "ci:custom:main http://ci/2::failure:1"},
		{result{Status: "failure", Source: "custom", Ref: "main", URL: "http://ci/1"}, "id9", "ci:custom:main http://ci/1::failure:1"},
		{result{Status: "error", Source: "custom"}, "", "ci:custom:::error:1"},
	}
	results := ciresult.New()
	for i, s := range steps {
		a := results.Take(&s.result, fmt.Sprint("id", i))
		if a.Revises != s.revises || a.DedupKey != s.key {
			t.Errorf("step %d: revises %q, key %q", i, a.Revises, a.DedupKey)
		}
		results = restored(t, results)
	}
}

func TestAlert(t *testing.T) {
	result := &ci.Result{
		Status: "failure", Source: "github-actions", Ref: "main", Commit: "abc123", Name: "build",
		Summary: "12 tests passed, 2 failed", Failures: []ci.Failure{{Name: "test_login", Message: "Expected 200, got 401"}, {Name: "test_cart"}},
		URL: "https://ci.example/run/123", DurationMS: 45000,
	}
	want := alert.Alert{
		Severity: alert.Error, Category: alert.CI, Source: alert.SourceCI, URL: "https://ci.example/run/123",
		Title: "CI failure: build on main", Detail: "12 tests passed, 2 failed; test_login: Expected 200, got 401; test_cart",
		Context: map[string]any{
			"status": "failure", "source": "github-actions", "ref": "main", "commit": "abc123", "name": "build", "duration_ms": 45000.0,
			"failures": []any{
				map[string]any{"name": "test_login", "message": "Expected 200, got 401"},
				map[string]any{"name": "test_cart", "message": ""},
			},
		},
		DedupKey: "ci:github-actions:abc123:build:failure:1",
	}
	if got := ciresult.New().Take(result, "id"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, tt := range []struct {
		result   ci.Result
		title    string
		severity alert.Severity
	}{
		{ci.Result{Status: "success", Source: "gitlab-ci", Name: "build", Ref: "main"}, "CI success: build on main", alert.Info},
		{ci.Result{Status: "error", Source: "custom", Ref: "main"}, "CI error: custom on main", alert.Error},
		{ci.Result{Status: "failure", Source: "custom", Name: "build"}, "CI failure: build", alert.Error},
	} {
		if a := ciresult.New().Take(&tt.result, "id"); a.Title != tt.title || a.Severity != tt.severity {
			t.Errorf("got %q, %q", a.Title, a.Severity)
		}
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	result := &ci.Result{Status: "failure", Source: "custom", Name: long}
	for range 15 {
		result.Failures = append(result.Failures, ci.Failure{Name: long, Message: long})
	}
	a := ciresult.New().Take(result, "id")
	list := a.Context["failures"].([]any)
	first := list[0].(map[string]any)
	if len(list) != 10 || utf8.RuneCountInString(first["name"].(string)) != 200 || utf8.RuneCountInString(first["message"].(string)) != 500 {
		t.Errorf("context with %d failures", len(list))
	}
	if !strings.HasSuffix(a.Detail, "; and 12 more") {
		t.Errorf("detail ends %q", a.Detail[len(a.Detail)-40:])
	}

	results := ciresult.New()
	for i := range ciresult.MaxResults + 1 {
		results.Take(&ci.Result{Status: "failure", Commit: fmt.Sprint(i)}, "id")
	}
	if results.Len() != ciresult.MaxResults || results.Evicted() != 1 {
		t.Errorf("%d results, %d evicted", results.Len(), results.Evicted())
	}
	results = restored(t, results)
	if a := results.Take(&ci.Result{Status: "failure", Commit: "1"}, "new"); a.Revises != "id" {
		t.Error("commit 1 is remembered")
	}
	if a := results.Take(&ci.Result{Status: "failure", Commit: "0"}, "new"); a.Revises != "" {
		t.Error("commit 0 was forgotten")
	}
}

func restored(t *testing.T, results *ciresult.Results) *ciresult.Results {
	t.Helper()
	var w snapshot.Writer
	results.Save(&w)
	r := snapshot.NewReader(w.Bytes())
	again := ciresult.Restore(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return again
}
