package kube_test

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

func TestApp(t *testing.T) {
	for _, tt := range []struct {
		m    kube.Message
		want string
	}{
		{kube.Message{Cluster: "dev", Event: &kube.Event{Labels: map[string]string{"k8s-app": "c", "app": "b", "app.kubernetes.io/name": "a"}}}, "a"},
		{kube.Message{Cluster: "dev", Event: &kube.Event{Labels: map[string]string{"k8s-app": "c", "app": "b", "app.kubernetes.io/name": ""}}}, "b"},
		{kube.Message{Cluster: "dev", Event: &kube.Event{Labels: map[string]string{"k8s-app": "c"}}}, "c"},
		{kube.Message{Cluster: "dev", Event: &kube.Event{}}, "dev"},
		{kube.Message{Cluster: "dev", Watch: &kube.Watch{}}, "dev"},
	} {
		if got := tt.m.App(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.m, got, tt.want)
		}
	}
}

func TestTail(t *testing.T) {
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "bcd"},
		{"ab€d", 3, "d"},
		{"ab€d", 4, "€d"},
	} {
		if got := string(kube.Tail([]byte(tt.text), tt.limit)); got != tt.want {
			t.Errorf("%q, %d: %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

// TestTailBeginsWithARune: of text that is UTF-8 no rune is cut, and less than one
// is given up for that.
func TestTailBeginsWithARune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		limit := rapid.IntRange(0, len(text)+1).Draw(t, "limit")
		got := kube.Tail([]byte(text), limit)
		if len(got) > limit || !utf8.Valid(got) || min(limit, len(text))-len(got) >= utf8.UTFMax {
			t.Errorf("%q", got)
		}
	})
}
