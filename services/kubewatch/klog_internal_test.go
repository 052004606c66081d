package kubewatch

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// TestDebugOnly checks that client-go's log appears at level debug, without the bodies of
// requests and answers, which contain every secret of a pod.
func TestDebugOnly(t *testing.T) {
	defer klog.ClearLogger()
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: "level=DEBUG msg=heard"} {
		var out bytes.Buffer
		klog.SetSlogLogger(slog.New(debugOnly{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})}))
		klog.Background().Info("heard")
		klog.Background().V(8).Info("Response Body", "body", "hunter2")
		if got := out.String(); !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "hunter2") {
			t.Errorf("log at level %s = %q, want %q and no secret", level, got, want)
		}
	}
}
