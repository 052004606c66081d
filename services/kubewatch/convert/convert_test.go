package convert_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/services/kubewatch/convert"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

func at(seconds int64) time.Time { return time.Unix(1_700_000_000+seconds, 0).UTC() }

// cardUUID is a UUID whose end looks like the number of a payment card.
const cardUUID = "d318c6e4-6e80-94c9-4612-268072860104"

// TestEvent checks the published form of an event. Each row changes one event.
func TestEvent(t *testing.T) {
	event := func() *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-1.17a", UID: "8a1c5a1e-0000-4000-8000-000000000001", ResourceVersion: "812",
				CreationTimestamp: metav1.Time{Time: at(1)},
			},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "pod-1", FieldPath: "spec.containers{web}"},
			Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: "Back-off restarting failed container",
			Source: corev1.EventSource{Component: "kubelet"}, LastTimestamp: metav1.Time{Time: at(3)}, Count: 1,
		}
	}
	want := func() *kube.Event {
		return &kube.Event{
			Namespace: "shop", Timestamp: at(3), Type: "Warning", Reason: "BackOff", Message: "Back-off restarting failed container",
			Labels:         map[string]string{"app": "web"},
			InvolvedObject: kube.Object{APIVersion: "v1", Kind: "Pod", Name: "web-1", Namespace: "shop", UID: "pod-1", Container: "web"},
			Component:      "kubelet", Name: "web-1.17a", UID: "8a1c5a1e-0000-4000-8000-000000000001", ResourceVersion: "812",
		}
	}
	long := strings.Repeat("é", kube.MaxMessage+1)
	for name, tt := range map[string]struct {
		change func(e *corev1.Event)
		want   func(w *kube.Event)
	}{
		"unchanged": {},
		"a series": {
			func(e *corev1.Event) {
				e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.MicroTime{Time: at(9)}}
			},
			func(w *kube.Event) { w.Count, w.Timestamp = 7, at(9) },
		},
		"a series without a time": {
			func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 2} },
			func(w *kube.Event) { w.Count = 2 },
		},
		"a count": {func(e *corev1.Event) { e.Count = 4 }, func(w *kube.Event) { w.Count = 4 }},
		"an event of events.k8s.io": {
			func(e *corev1.Event) {
				e.LastTimestamp, e.Count, e.EventTime, e.Source = metav1.Time{}, 0, metav1.MicroTime{Time: at(5)}, corev1.EventSource{}
				e.ReportingController = "deployment-controller"
			},
			func(w *kube.Event) { w.Timestamp, w.Component = at(5), "deployment-controller" },
		},
		"without any time": {func(e *corev1.Event) { e.LastTimestamp = metav1.Time{} }, func(w *kube.Event) { w.Timestamp = at(1) }},
		"an init container": {
			func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.initContainers{migrate}" },
			func(w *kube.Event) { w.InvolvedObject.Container = "migrate" },
		},
		"no container": {
			func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.containers" },
			func(w *kube.Event) { w.InvolvedObject.Container = "" },
		},
		"a secret": {
			func(e *corev1.Event) { e.Message = "exec: password=hunter2 failed" },
			func(w *kube.Event) { w.Message = "exec: password=[REDACTED] failed" },
		},
		"uids and versions with the digits of a card": {
			func(e *corev1.Event) {
				e.UID, e.ResourceVersion, e.InvolvedObject.UID = cardUUID, "4763770097695115", cardUUID
			},
			func(w *kube.Event) {
				w.UID, w.ResourceVersion, w.InvolvedObject.UID = cardUUID, "4763770097695115", cardUUID
			},
		},
		"the number of a card as the uid": {
			func(e *corev1.Event) { e.InvolvedObject.UID = "4763770097695115" },
			func(w *kube.Event) { w.InvolvedObject.UID = "[REDACTED:card]" },
		},
		"control characters": {
			func(e *corev1.Event) { e.Message, e.Reason = "a\x1b[31m\nb\u202e", "Back\nOff" },
			func(w *kube.Event) { w.Message, w.Reason = "a␛[31m\nb", "Back␊Off" },
		},
		"invalid UTF-8": {func(e *corev1.Event) { e.Message = "a\xffb" }, func(w *kube.Event) { w.Message = "a\ufffdb" }},
		"too long":      {func(e *corev1.Event) { e.Message = long }, func(w *kube.Event) { w.Message = long[:2*(kube.MaxMessage-1)] + "…" }},
	} {
		t.Run(name, func(t *testing.T) {
			e, w := event(), want()
			if tt.change != nil {
				tt.change(e)
				tt.want(w)
			}
			if got := convert.New(redact.New()).Event(e, map[string]string{"app": "web"}); !reflect.DeepEqual(got, w) {
				t.Errorf("event (-want +got):\n%s", cmp.Diff(w, got))
			}
		})
	}
}

// TestLabels checks that the first labels by name are kept, and that a value is masked by its
// name.
func TestLabels(t *testing.T) {
	labels := map[string]string{"a-token": "s3cr3t-value", "app": "web", "a/b\x1b": strings.Repeat("x", 300)}
	for i := range 100 {
		labels[fmt.Sprintf("label-%03d", i)] = "v"
	}
	got := convert.New(redact.New()).Labels(labels)
	if len(got) != kube.MaxLabels {
		t.Errorf("%d labels, want %d", len(got), kube.MaxLabels)
	}
	for name, want := range map[string]string{"app": "web", "label-060": "v", "label-061": ""} { // three come before them
		if got[name] != want {
			t.Errorf("label %s = %q, want %q: the first by name are kept", name, got[name], want)
		}
	}
	if strings.Contains(got["a-token"], "s3cr3t") {
		t.Errorf("label a-token = %q, want it masked", got["a-token"])
	}
	if v := got["a/b␛"]; utf8.RuneCountInString(v) != kube.MaxLabel {
		t.Errorf("long label = %q, want %d characters", v, kube.MaxLabel)
	}
	if len(labels) != 103 {
		t.Errorf("the given map has %d labels, want 103, unchanged", len(labels))
	}
}

// FuzzEvent checks that the published form of any event is bounded, valid UTF-8 and without
// control characters.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a"},"message":"b\u001b","reason":"c","involvedObject":{"kind":"Pod","fieldPath":"spec.containers{d}"}}`), "app", "web")
	f.Add([]byte(`{"series":{"count":-5},"count":-1,"eventTime":"2026-01-01T00:00:00.000000Z","firstTimestamp":null}`), "\xff", "password=\x00")
	c := convert.New(redact.New())
	f.Fuzz(func(t *testing.T, data []byte, name, value string) {
		var e corev1.Event
		if json.Unmarshal(data, &e) != nil {
			e = corev1.Event{Message: string(data), Reason: string(data), InvolvedObject: corev1.ObjectReference{Name: string(data), FieldPath: string(data)}}
		}
		got := c.Event(&e, map[string]string{name: value})
		o := got.InvolvedObject
		texts := []string{got.Namespace, got.Type, got.Reason, got.Component, got.Name, got.UID, got.ResourceVersion, o.APIVersion, o.Kind, o.Name, o.Namespace, o.UID, o.Container}
		for k, v := range got.Labels {
			texts = append(texts, k, v)
		}
		for _, s := range texts {
			if utf8.RuneCountInString(s) > kube.MaxName || !utf8.ValidString(s) || strings.ContainsAny(s, "\n\t\x00\x1b") {
				t.Errorf("text = %q, want at most %d visible characters of one line", s, kube.MaxName)
			}
		}
		if utf8.RuneCountInString(got.Message) > kube.MaxMessage || !utf8.ValidString(got.Message) || strings.ContainsAny(got.Message, "\x00\x1b") {
			t.Errorf("message = %q, want at most %d visible characters", got.Message, kube.MaxMessage)
		}
		if got.Count < 0 || got.Count == 1 || len(got.Labels) > kube.MaxLabels {
			t.Errorf("event = %+v, want a count of 0 or at least 2 and at most %d labels", got, kube.MaxLabels)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("encode the event: %v", err)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	c := convert.New(redact.New())
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "web-6d4cf56db6-x7k2p.17a5b2c3d4e5f678", UID: "8a1c5a1e-2b3c-4d5e-8f90-000000000001", ResourceVersion: "8123456"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-6d4cf56db6-x7k2p", UID: "8a1c5a1e-2b3c-4d5e-8f90-000000000002", FieldPath: "spec.containers{web}"},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: "Back-off restarting failed container web in pod web-6d4cf56db6-x7k2p_shop(8a1c5a1e-2b3c-4d5e-8f90-000000000002)",
		Source: corev1.EventSource{Component: "kubelet"}, LastTimestamp: metav1.Time{Time: at(3)}, Count: 12,
	}
	labels := map[string]string{"app": "web", "app.kubernetes.io/name": "web", "pod-template-hash": "6d4cf56db6", "team": "checkout"}
	for b.Loop() {
		c.Event(e, labels)
	}
}
