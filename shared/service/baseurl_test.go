package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/service"
)

func TestBaseURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://127.0.0.1:7490": "http://127.0.0.1:7490", "http://127.0.0.1:7490/": "http://127.0.0.1:7490", "http://[::1]:7490": "http://[::1]:7490",
		"https://tocsin.example/x": "https://tocsin.example/x", "https://tocsin.example/x/y-z//": "https://tocsin.example/x/y-z",
		"127.0.0.1:7490": "", "ftp://x": "", "http://": "", "http://:80": "", "http://u:hunter2@x": "", "http://x?y": "", "http://x?": "", "http://x#y": "", "http://x y": "",
		"unix:/run/x": "", "http://x/..": "", "http://x//y": "", "http://x/a/../b": "", "http://x/%2e%2e": "", "http://x/a%2fb": "", "http://x/a;b": "", "http://x/hunter2 é": "",
	} {
		u, err := service.BaseURL(text)
		got := ""
		if err == nil {
			got = u.String()
		}
		if got != want || (err == nil) != (want != "") || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("BaseURL(%q) = %q, %v, want %q, and no part of the URL in an error", text, got, err, want)
		}
	}
}
