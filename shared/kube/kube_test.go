package kube_test

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// TestApp checks which label names the app, and that the cluster does without one.
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
			t.Errorf("App of %+v = %q, want %q", tt.m, got, tt.want)
		}
	}
}

// TestTail checks that the end of a text is kept, from a whole rune on.
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
			t.Errorf("Tail(%q, %d) = %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

// TestTailBeginsWithARune checks that no rune of a UTF-8 text is cut, and that less than one
// rune is left out for that.
func TestTailBeginsWithARune(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		limit := rapid.IntRange(0, len(text)+1).Draw(t, "limit")
		got := kube.Tail([]byte(text), limit)
		if !utf8.Valid(got) {
			t.Errorf("Tail(%q, %d) = %q, want valid UTF-8", text, limit, got)
		}
		if most := min(limit, len(text)); len(got) > most || len(got) <= most-utf8.UTFMax {
			t.Errorf("Tail(%q, %d) has %d bytes, want at most %d, and more than %d", text, limit, len(got), most, most-utf8.UTFMax)
		}
	})
}
