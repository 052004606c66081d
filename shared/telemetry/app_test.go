package telemetry_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func TestSenderApp(t *testing.T) {
	for _, c := range []struct{ app, want string }{
		{"tocsin", "tocsin_"},
		{"Tocsin", "tocsin_"},
		{"TOCSIN", "tocsin_"},
		{" tocsin\t", "tocsin_"},
		{"toc\u200dsin", "tocsin_"},
		{"\u200ctocsin", "tocsin_"},
		{"tocsin \u2800", "tocsin_"},
		{"", ""},
		{"web", "web"},
		{"tocsin_", "tocsin_"},
		{"tocsin-shop", "tocsin-shop"},
		{"mytocsin", "mytocsin"},
	} {
		app, want := c.app, c.want
		if got := telemetry.SenderApp(app); got != want {
			t.Errorf("%q is stored as %q, want %q", app, got, want)
		}
		if got := telemetry.IsReserved(app); got != (want == "tocsin_" && app != "tocsin_") {
			t.Errorf("IsReserved(%q) = %t, want %t", app, got, !got)
		}
	}
}
