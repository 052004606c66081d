package display_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestKubernetes: no text of what a cluster says holds a secret, a control character
// or an invisible one; of its logs the lines stay.
func TestKubernetes(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	const text = "\x1b[2J\u202e " + secret
	m := func() kube.Message {
		return kube.Message{
			Cluster: text,
			Event: &kube.Event{
				Namespace: text, Type: text, Reason: text, Message: text + "\n" + strings.Repeat("x ", kube.MaxMessage), Component: text, Name: text,
				Labels:         map[string]string{text: text, "app": "web"},
				InvolvedObject: kube.Object{APIVersion: text, Kind: text, Name: text, Namespace: text, Container: text},
			},
			Fault: &kube.Fault{ID: "f1", Kind: kube.Crash, Reason: text},
			Logs:  []kube.Log{{Container: text, Sample: "panic: x\n\tmain.go " + text, Error: text}},
			Watch: &kube.Watch{Error: text},
		}
	}
	given := m()
	got := display.Kubernetes(given, redact.New())
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{secret, "\x1b", `\u001b`, "\u202e"} {
		if strings.Contains(string(data), bad) {
			t.Errorf("the shown message has %q, want it masked or removed: %s", bad, data)
		}
	}
	if !strings.HasPrefix(got.Logs[0].Sample, "panic: x\n\tmain.go ") {
		t.Errorf("sample = %q, want its line feed and tab kept", got.Logs[0].Sample)
	}
	if strings.Contains(got.Event.Message, "\n") || len([]rune(got.Event.Message)) > kube.MaxMessage {
		t.Errorf("message = %q, want one line of at most %d characters", got.Event.Message, kube.MaxMessage)
	}
	if got.Event.Labels["app"] != "web" || len(got.Event.Labels) != 2 || got.Fault.ID != "f1" {
		t.Errorf("labels = %+v and fault id = %q, want 2 labels with app web, and f1", got.Event.Labels, got.Fault.ID)
	}
	if diff := cmp.Diff(m(), given); diff != "" {
		t.Errorf("Kubernetes changed its argument (-want +got):\n%s", diff)
	}
}
