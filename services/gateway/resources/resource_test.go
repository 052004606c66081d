package resources

import (
	"fmt"
	"testing"
)

func TestParse(t *testing.T) {
	for uri, want := range map[string]string{
		"tocsin://alerts": "0 ", "tocsin://ci/latest": "2 ", "tocsin://alerts/a1": "1 a1",
		"tocsin://alerts/": "", "tocsin://alerts/A": "", "tocsin://alerts/a/b": "", "tocsin://alerts/..": "", "tocsin://alerts/a%41": "",
		"tocsin://alerts?": "", "tocsin://ci": "", "TOCSIN://alerts": "", "": "", "file:///etc/passwd": "", "tocsin://alerts/a\n": "", "tocsin://alerts/\u00e4": "",
	} {
		got := ""
		if r, ok := Parse(uri); ok {
			got = fmt.Sprintf("%d %s", r.Kind, r.ID)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", uri, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{AlertsURI, CIURI, AlertURIPrefix, AlertURIPrefix + "mfrggzdfmztwq2lk", AlertURIPrefix + "../x", AlertURIPrefix + "a\x00", "tocsin://alerts//a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		r, ok := Parse(uri)
		if !ok {
			return
		}
		back := map[Kind]string{KindAlerts: AlertsURI, KindAlert: AlertURIPrefix + r.ID, KindCI: CIURI}[r.Kind]
		if back != uri || len(uri) > len(AlertURIPrefix)+maxID {
			t.Errorf("%q became %q", uri, back)
		}
		for _, c := range r.ID {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				t.Errorf("%q is an id", r.ID)
			}
		}
	})
}
