package kubewatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// TestFlags: what can't be is refused in words that name the setting, and what can is
// what the watch keeps to.
func TestFlags(t *testing.T) {
	standard := kubewatch.LogFlags{PerCluster: 5, Global: 20, MaxBytes: 10240, MaxContainers: 5, LogTimeout: 10 * time.Second}
	for name, tt := range map[string]struct {
		change func(f *kubewatch.LogFlags)
		want   string // within the error; empty for none
	}{
		"the defaults": {},
		"less of each": {change: func(f *kubewatch.LogFlags) {
			*f = kubewatch.LogFlags{PerCluster: 1, Global: 1, MaxBytes: 1, MaxContainers: 1, LogTimeout: time.Second}
		}},
		"no captures":          {change: func(f *kubewatch.LogFlags) { f.PerCluster = 0 }, want: "--max-log-captures-per-cluster must be between 1 and 100"},
		"too many captures":    {change: func(f *kubewatch.LogFlags) { f.Global = 1001 }, want: "--max-log-captures-global must be between 1 and 1000"},
		"more than is kept":    {change: func(f *kubewatch.LogFlags) { f.MaxBytes = 10241 }, want: "--max-log-bytes-per-container must be between 1 and 10240"},
		"too many containers":  {change: func(f *kubewatch.LogFlags) { f.MaxContainers = 6 }, want: "--max-containers-per-notification must be between 1 and 5"},
		"no time":              {change: func(f *kubewatch.LogFlags) { f.LogTimeout = 0 }, want: "--log-timeout"},
		"more time than a min": {change: func(f *kubewatch.LogFlags) { f.LogTimeout = time.Hour }, want: "--log-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			f := standard
			if tt.change != nil {
				tt.change(&f)
			}
			got := ""
			if err := f.Validate(); err != nil {
				got = err.Error()
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if got, want := standard.Config(), (logs.Config{PerCluster: 5, Global: 20, MaxBytes: 10240, MaxContainers: 5, Timeout: 10 * time.Second}); got != want {
		t.Errorf("%+v", got)
	}
	both := kubewatch.ClusterFlags{AllContexts: true, Contexts: []string{"dev"}}
	if err := both.Validate(); err == nil {
		t.Error("--context beside --all-contexts")
	}
	if err := (&kubewatch.Command{LayoutFlags: service.LayoutFlags{Replicas: 3}}).Validate(); err == nil {
		t.Error("copies of the embedded bus")
	}
}
