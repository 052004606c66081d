package kubewatch

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// TestQuiet: at the level debug, client-go is heard, but not the bodies of what it sends
// and gets: those have every secret that is in a pod.
func TestQuiet(t *testing.T) {
	defer klog.ClearLogger()
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: "level=DEBUG msg=heard"} {
		var out bytes.Buffer
		klog.SetSlogLogger(slog.New(quiet{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})}))
		klog.Background().Info("heard")
		klog.Background().V(8).Info("Response Body", "body", "hunter2")
		if got := out.String(); !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q", level, got)
		}
	}
}
