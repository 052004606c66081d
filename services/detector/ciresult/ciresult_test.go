package ciresult_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/ciresult"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// TestTimeline publishes every alert. The alert of step i has the id "id"+i.
func TestTimeline(t *testing.T) {
	type result = ci.Result
	steps := []struct {
		result            result
		revises, resolves string
		key               string
	}{
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "", "", "ci:custom:abc:build:failure:1"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "id0", "", "ci:custom:abc:build:failure:1"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build", Summary: "x"}, "id0", "", "ci:custom:abc:build:failure:1"},
		{result{Status: "success", Source: "custom", Commit: "abc", Name: "build"}, "", "id0", "ci:custom:abc:build:failure:1"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "", "", "ci:custom:abc:build:failure:3"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "build"}, "id4", "", "ci:custom:abc:build:failure:3"},
		{result{Status: "failure", Source: "custom", Commit: "abc", Name: "lint"}, "", "", "ci:custom:abc:lint:failure:1"},
		{result{Status: "failure", Source: "gitlab-ci", Commit: "abc", Name: "build"}, "", "", "ci:gitlab-ci:abc:build:failure:1"},
		{result{Status: "failure", Source: "custom", Commit: "abd", Name: "build"}, "", "", "ci:custom:abd:build:failure:1"},
		{result{Status: "failure", Source: "custom", Ref: "main", URL: "http://ci/1"}, "", "", "ci:custom:main http://ci/1::failure:1"},
		{result{Status: "failure", Source: "custom", Ref: "main", URL: "http://ci/2"}, "", "", "ci:custom:main http://ci/2::failure:1"},
		{result{Status: "failure", Source: "custom", Ref: "main", URL: "http://ci/1"}, "id9", "", "ci:custom:main http://ci/1::failure:1"},
		{result{Status: "error", Source: "custom"}, "", "", "ci:custom:::error:1"},
		{result{Status: "success", Source: "custom"}, "", "id12", "ci:custom:::error:1"},
		{result{Status: "success", Source: "custom", Commit: "new", Name: "build"}, "", "", "ci:custom:new:build:success:1"},
	}
	results := ciresult.New()
	for i, s := range steps {
		id := fmt.Sprint("id", i)
		a := publish(results, &s.result, id)
		got, want := [...]string{a.Revises, a.Resolves, a.DedupKey}, [...]string{s.revises, s.resolves, s.key}
		if got != want {
			t.Errorf("step %d: revises, resolves, dedup key = %q, want %q", i, got, want)
		}
		results = restored(t, results)
	}
}

// publish publishes the alert about a result.
func publish(results *ciresult.Results, result *ci.Result, id string) alert.Alert {
	pending := results.Prepare(result)
	results.MarkPublished(pending, id)
	return pending.Alert
}

// TestBranch checks which failures of a branch a success resolves.
func TestBranch(t *testing.T) {
	for _, tt := range []struct {
		name string
		// runs are "commit status" or "commit status ref". The alerts of those in brackets
		// are suppressed. want has the indexes of the runs that each one resolves.
		runs string
		want string
	}{
		{"the next commit", "a failure main, b success main", "- 0"},
		{"the same commit", "a failure main, a success main", "- 0"},
		{"an error is one as well", "a error main, b success main", "- 0"},
		{"once", "a failure main, b success main, c success main", "- 0 -"},
		{"the same success again revises it and ends the same", "a failure main, b success main, b success main", "- 0 0"},
		{"another branch", "a failure main, b success dev", "- -"},
		{"all of several, the newest first", "a failure main, b failure main, c success main, d success main", "- - 1+0 -"},
		{"the first alert of a failure reported again", "a failure main, a failure main, b success main", "- - 0"},
		{"an error after a failure of one commit", "a failure main, a error main, a success main", "- - 1+0"},
		{"an older commit's late success", "a failure main, b failure main, a success main, a success main", "- - 1+0 1+0"},
		{"ten at most", "a failure main, b failure main, c failure main, d failure main, e failure main, f failure main, g failure main, h failure main, " +
			"i failure main, j failure main, k failure main, l success main", "- - - - - - - - - - - 10+1+2+3+4+5+6+7+8+9"},
		{"failing again", "a failure main, b success main, c failure main, d success main", "- 0 - 2"},
		{"without a branch the commit", "a failure, b success, a success", "- - 0"},
		{"a branch is no commit", "main failure, x success main", "- -"},
		{"a success that is suppressed ends nothing yet", "a failure main, (b success main), b success main", "- 0 0"},
		{"a failure that is suppressed is not resolved", "(a failure main), b success main", "- -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			results := ciresult.New()
			var got []string
			for i, run := range strings.Split(tt.runs, ", ") {
				suppressed := strings.HasPrefix(run, "(")
				fields := append(strings.Fields(strings.Trim(run, "()")), "")
				pending := results.Prepare(&ci.Result{Source: "custom", Commit: fields[0], Status: fields[1], Ref: fields[2], Name: "build"})
				if !suppressed {
					results.MarkPublished(pending, fmt.Sprint(i))
				}
				got = append(got, cmp.Or(strings.Join(append([]string{pending.Alert.Resolves}, pending.Alert.AlsoResolves...), "+"), "-"))
				results = restored(t, results)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.runs, got, tt.want)
			}
		})
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
	if diff := gocmp.Diff(want, publish(ciresult.New(), result, "id")); diff != "" {
		t.Errorf("alert (-want +got):\n%s", diff)
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
		if a := publish(ciresult.New(), &tt.result, "id"); a.Title != tt.title || a.Severity != tt.severity {
			t.Errorf("title, severity = %q, %q, want %q, %q", a.Title, a.Severity, tt.title, tt.severity)
		}
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	result := &ci.Result{Status: "failure", Source: "custom", Name: long}
	for range 15 {
		result.Failures = append(result.Failures, ci.Failure{Name: long, Message: long})
	}
	a := publish(ciresult.New(), result, "id")
	list := a.Context["failures"].([]any)
	first := list[0].(map[string]any)
	for _, tt := range []struct {
		name      string
		got, want int
	}{
		{"failures", len(list), 10},
		{"characters of a name", utf8.RuneCountInString(first["name"].(string)), 200},
		{"characters of a message", utf8.RuneCountInString(first["message"].(string)), 500},
	} {
		if tt.got != tt.want {
			t.Errorf("%s in the context: got %d, want %d", tt.name, tt.got, tt.want)
		}
	}
	if !strings.HasSuffix(a.Detail, "; and 12 more") {
		t.Errorf("detail ends with %q, want %q", a.Detail[len(a.Detail)-40:], "; and 12 more")
	}

	results := ciresult.New()
	for i := range ciresult.MaxResults + 1 {
		publish(results, &ci.Result{Status: "failure", Commit: fmt.Sprint(i)}, "id")
	}
	if got := results.Len(); got != ciresult.MaxResults {
		t.Errorf("Len() = %d, want %d", got, ciresult.MaxResults)
	}
	if got := results.Evicted(); got != 1 {
		t.Errorf("Evicted() = %d, want 1", got)
	}
	if got := results.EvictedFailing(); got != 1 {
		t.Errorf("EvictedFailing() = %d, want 1", got)
	}
	results = restored(t, results)
	for commit, want := range map[string]string{"0": "", "1": "id"} { // only the oldest is forgotten
		if got := results.Prepare(&ci.Result{Status: "success", Commit: commit}).Alert.Resolves; got != want {
			t.Errorf("a success of commit %s resolves %q, want %q", commit, got, want)
		}
	}
	if a := publish(results, &ci.Result{Status: "failure", Commit: "1"}, "new"); a.Revises != "id" {
		t.Errorf("a failure of commit 1, which is remembered, revises %q, want %q", a.Revises, "id")
	}
	if a := publish(results, &ci.Result{Status: "failure", Commit: "0"}, "new"); a.Revises != "" {
		t.Errorf("a failure of commit 0, which was forgotten, revises %q, want none", a.Revises)
	}
}

func restored(t *testing.T, results *ciresult.Results) *ciresult.Results {
	t.Helper()
	again := ciresult.New()
	snapshottest.Copy(t, results, again)
	return again
}
