package e2etest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// CheckAlert compares an alert with what is wanted of it: the fields that are not
// zero, the entries of its Context, and texts that its detail contains.
func CheckAlert(t *testing.T, got, want alert.Alert, inDetail ...string) {
	t.Helper()
	compared := alert.Alert{
		ID: ifSet(want.ID, got.ID), Severity: ifSet(want.Severity, got.Severity), Category: ifSet(want.Category, got.Category),
		Title: ifSet(want.Title, got.Title), Detail: ifSet(want.Detail, got.Detail), Source: ifSet(want.Source, got.Source),
		App: ifSet(want.App, got.App), URL: ifSet(want.URL, got.URL), DedupKey: ifSet(want.DedupKey, got.DedupKey),
		CorrelationID: ifSet(want.CorrelationID, got.CorrelationID), Count: ifSet(want.Count, got.Count),
		Resolves: ifSet(want.Resolves, got.Resolves), InhibitedBy: ifSet(want.InhibitedBy, got.InhibitedBy), Reason: ifSet(want.Reason, got.Reason),
	}
	if want.Context != nil {
		compared.Context = map[string]any{}
		for key := range want.Context {
			compared.Context[key] = got.Context[key]
		}
	}
	wanted := alert.Alert{
		ID: want.ID, Severity: want.Severity, Category: want.Category, Title: want.Title, Detail: want.Detail, Source: want.Source,
		App: want.App, URL: want.URL, DedupKey: want.DedupKey, CorrelationID: want.CorrelationID, Count: want.Count,
		Resolves: want.Resolves, InhibitedBy: want.InhibitedBy, Reason: want.Reason, Context: want.Context,
	}
	if diff := cmp.Diff(wanted, compared); diff != "" {
		t.Errorf("alert %q (-want +got):\n%s", got.Title, diff)
	}
	for _, text := range inDetail {
		if !strings.Contains(got.Detail, text) {
			t.Errorf("alert %q: Detail = %q, want %q in it", got.Title, got.Detail, text)
		}
	}
}

// ifSet returns got if want is set, so that fields that no one asked for compare equal.
func ifSet[T comparable](want, got T) T {
	var zero T
	if want == zero {
		return zero
	}
	return got
}

// CheckTitles compares the titles of alerts, in any order.
func CheckTitles(t *testing.T, got []alert.Alert, want ...string) {
	t.Helper()
	titles := make([]string, 0, len(got))
	for _, a := range got {
		titles = append(titles, a.Title)
	}
	slices.Sort(titles)
	slices.Sort(want)
	if diff := cmp.Diff(want, titles, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("titles of the alerts (-want +got):\n%s", diff)
	}
}
