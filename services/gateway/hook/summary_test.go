package hook

import (
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestOpenFirst(t *testing.T) {
	order := ""
	for _, a := range openFirst([]alert.Alert{
		{ID: "a", Severity: alert.Error, Resolved: true}, {ID: "b", Severity: alert.Error},
		{ID: "c", Severity: alert.Warning}, {ID: "d", Severity: alert.Info, Resolves: "x"}, {ID: "e", Severity: alert.Info},
	}) {
		order += a.ID
	}
	if want := "bcead"; order != want {
		t.Errorf("order = %s, want %s", order, want)
	}
}

func TestCountText(t *testing.T) {
	for want, alerts := range map[string][]alert.Alert{
		"no pending alerts":                              nil,
		"1 pending alert (1 warning)":                    {{Severity: alert.Warning}},
		"1 pending alert (1 resolved)":                   {{Severity: alert.Error, Resolved: true}},
		"4 pending alerts (1 error, 1 info, 2 resolved)": {{Severity: alert.Error}, {Severity: alert.Error, Resolved: true}, {Severity: alert.Warning, Resolved: true}, {Severity: alert.Info}},
		"3 pending alerts (1 error, 1 warning, 1 info)":  {{Severity: alert.Info}, {Severity: alert.Error}, {Severity: alert.Warning}},
	} {
		if got := countText(alerts); got != want {
			t.Errorf("countText = %q, want %q", got, want)
		}
	}
}
