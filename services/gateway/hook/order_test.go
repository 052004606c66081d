package hook

import (
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestWhatIsOnComesFirst(t *testing.T) {
	got := liveFirst([]alert.Alert{
		{ID: "a", Severity: alert.Error, Resolved: true}, {ID: "b", Severity: alert.Error},
		{ID: "c", Severity: alert.Warning}, {ID: "d", Severity: alert.Info, Resolves: "x"}, {ID: "e", Severity: alert.Info},
	})
	order := ""
	for _, a := range got {
		order += a.ID
	}
	if order != "bcead" {
		t.Error(order)
	}
}

func TestPendingText(t *testing.T) {
	for want, alerts := range map[string][]alert.Alert{
		"no alert pends":                             nil,
		"1 alert pends (1 warning)":                  {{Severity: alert.Warning}},
		"1 alert pends (1 over)":                     {{Severity: alert.Error, Resolved: true}},
		"4 alerts pend (1 error, 1 info, 2 over)":    {{Severity: alert.Error}, {Severity: alert.Error, Resolved: true}, {Severity: alert.Warning, Resolved: true}, {Severity: alert.Info}},
		"3 alerts pend (1 error, 1 warning, 1 info)": {{Severity: alert.Info}, {Severity: alert.Error}, {Severity: alert.Warning}},
	} {
		if got := pendingText(alerts); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
