package mcpserver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseResource(t *testing.T) {
	for uri, want := range map[string]resource{
		"tocsin://alerts": {kind: newestAlerts}, "tocsin://ci/latest": {kind: latestCI}, "tocsin://alerts/a1": {singleAlert, "a1"},
	} {
		got, ok := parseResource(uri)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(resource{})); !ok || diff != "" {
			t.Errorf("parseResource(%q): ok = %v, want true (-want +got):\n%s", uri, ok, diff)
		}
	}
	for _, uri := range []string{
		"tocsin://alerts/", "tocsin://alerts/A", "tocsin://alerts/a/b", "tocsin://alerts/..", "tocsin://alerts/a%41",
		"tocsin://alerts?", "tocsin://ci", "TOCSIN://alerts", "", "file:///etc/passwd", "tocsin://alerts/a\n", "tocsin://alerts/\u00e4",
	} {
		if got, ok := parseResource(uri); ok {
			t.Errorf("parseResource(%q) = %+v, want not ok", uri, got)
		}
	}
}

func FuzzParseResource(f *testing.F) {
	for _, seed := range []string{alertsURI, ciURI, alertURIPrefix, alertURIPrefix + "mfrggzdfmztwq2lk", alertURIPrefix + "../x", alertURIPrefix + "a\x00", "tocsin://alerts//a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		r, ok := parseResource(uri)
		if !ok {
			return
		}
		back := map[resourceKind]string{newestAlerts: alertsURI, singleAlert: alertURIPrefix + r.alertID, latestCI: ciURI}[r.kind]
		if back != uri {
			t.Errorf("%q was parsed as the resource of %q, want the same URI", uri, back)
		}
		if limit := len(alertURIPrefix) + maxAlertID; len(uri) > limit {
			t.Errorf("%q was parsed: it has %d bytes, want at most %d", uri, len(uri), limit)
		}
		for _, c := range r.alertID {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				t.Errorf("parseResource(%q) has the alert id %q, want only a-z and 0-9", uri, r.alertID)
			}
		}
	})
}
