package kubewatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// TestFlags checks that invalid flags are refused by name, and that valid ones are used.
func TestFlags(t *testing.T) {
	standard := kubewatch.LogFlags{PerCluster: 5, Global: 20, MaxBytes: 10240, MaxContainers: 5, LogTimeout: 10 * time.Second}
	for name, tt := range map[string]struct {
		change func(f *kubewatch.LogFlags)
		want   string // a part of the error; empty for none
	}{
		"the defaults": {},
		"less of each": {change: func(f *kubewatch.LogFlags) {
			*f = kubewatch.LogFlags{PerCluster: 1, Global: 1, MaxBytes: 1, MaxContainers: 1, LogTimeout: time.Second}
		}},
		"no captures":         {change: func(f *kubewatch.LogFlags) { f.PerCluster = 0 }, want: "--max-log-captures-per-cluster must be between 1 and 100"},
		"too many captures":   {change: func(f *kubewatch.LogFlags) { f.Global = 1001 }, want: "--max-log-captures-global must be between 1 and 1000"},
		"too many bytes":      {change: func(f *kubewatch.LogFlags) { f.MaxBytes = 10241 }, want: "--max-log-bytes-per-container must be between 1 and 10240"},
		"too many containers": {change: func(f *kubewatch.LogFlags) { f.MaxContainers = 6 }, want: "--max-containers-per-notification must be between 1 and 5"},
		"no timeout":          {change: func(f *kubewatch.LogFlags) { f.LogTimeout = 0 }, want: "--log-timeout"},
		"too long a timeout":  {change: func(f *kubewatch.LogFlags) { f.LogTimeout = time.Hour }, want: "--log-timeout"},
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
				t.Errorf("Validate = error %q, want %q", got, tt.want)
			}
		})
	}
	if got, want := standard.Config(), (logs.Config{PerCluster: 5, Global: 20, MaxBytes: 10240, MaxContainers: 5, Timeout: 10 * time.Second}); got != want {
		t.Errorf("Config = %+v, want %+v", got, want)
	}
	both := kubewatch.ClusterFlags{AllContexts: true, Contexts: []string{"dev"}}
	if err := both.Validate(); err == nil {
		t.Error("Validate of --context with --all-contexts = nil, want an error")
	}
	if err := (&kubewatch.Command{LayoutFlags: service.LayoutFlags{Replicas: 3}}).Validate(); err == nil {
		t.Error("Validate of --replicas with the embedded bus = nil, want an error")
	}
}
