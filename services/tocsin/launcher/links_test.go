package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestLinksNoService keeps the launcher small: it starts as fast as what it links.
func TestLinksNoService(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	heavy := regexp.MustCompile(`nats-server|prometheus|k8s\.io|modelcontextprotocol|opentelemetry|gitlab|go-github|gitleaks|viper|protobuf` +
		`|tocsin/services/(detector|kubewatch|dashboard|gateway|ingest|tocsin)$`)
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Errorf("%d packages, want all that are linked", len(packages))
	}
	for _, name := range packages {
		if heavy.MatchString(name) {
			t.Errorf("the launcher links %s, which every tocsin hook would start with", name)
		}
	}
}
