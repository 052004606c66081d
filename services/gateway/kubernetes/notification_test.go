package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestLines(t *testing.T) {
	events, err := kubernetes.NewFilter("dev", kubernetes.Events, kubernetes.Filters{Namespaces: []string{"shop"}}, namespaces.Set{})
	if err != nil {
		t.Fatal(err)
	}
	faults, err := kubernetes.NewFilter("dev", kubernetes.Faults, kubernetes.Filters{Namespaces: []string{"shop"}}, namespaces.Set{})
	if err != nil {
		t.Fatal(err)
	}
	bare := node()
	bare.Event.Labels = nil
	first, withLogs := fault(kube.CrashLoop, kube.StateFiring), fault(kube.CrashLoop, kube.StateFiring)
	first.Fault.LogsFollow, withLogs.Fault.LogsFollow = true, true
	withLogs.Logs = []kube.Log{
		{Container: "web", HasPanic: true, Sample: "panic: runtime error\ngoroutine 1 [running]:\n", Truncated: true},
		{Container: "web", Previous: true, Error: "the cluster refuses its logs: pods/log is forbidden"},
	}
	for name, n := range map[string]kubernetes.Notification{
		"event":      events.Notification("sub-123", pod()),
		"event_node": events.Notification("sub-123", bare),
		"fault":      faults.Notification("sub-456", first),
		"fault_logs": faults.Notification("sub-456", withLogs),
		"degraded":   faults.DegradedNotification("sub-789", "watch connection failed after 5 reconnection attempts"),
		"recovered":  faults.RecoveredNotification("sub-789"),
		"lost":       faults.DroppedNotification("sub-789", 12, false),
	} {
		t.Run(name, func(t *testing.T) {
			line, err := n.Line()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.ContainsRune(line, '\n') {
				t.Fatalf("line = %q, want one line", line)
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, line, "", "  "); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, pretty.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
				t.Errorf("notification (-want +got):\n%s", diff)
			}
		})
	}
}
