package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unit parses a unit: each key of each section, with all its values, also empty ones.
func unit(t *testing.T, file string) map[string][]string {
	t.Helper()
	keys, section := map[string][]string{}, ""
	for i, line := range strings.Split(string(read(t, file)), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" || strings.TrimSpace(key) != key {
				t.Errorf("%s:%d: got %q, want a section and key %v", file, i+1, line, key)
			}
			keys[section+"."+key] = append(keys[section+"."+key], value)
		}
	}
	return keys
}

func TestUnits(t *testing.T) {
	for file, want := range map[string]map[string]string{
		"tocsin.service": {
			"Service.DynamicUser": "yes", "Service.StateDirectory": "tocsin", "Service.ProtectSystem": "strict", "Service.ProtectHome": "yes",
			"Service.CapabilityBoundingSet": "", "Service.PrivateDevices": "yes", "Service.PrivateTmp": "yes", "Install.WantedBy": "multi-user.target",
		},
		"tocsin-user.service": {"Install.WantedBy": "default.target"},
	} {
		keys := unit(t, deploy(t, "systemd", file))
		for key, value := range map[string]string{
			"Service.NoNewPrivileges": "yes", "Service.RestrictNamespaces": "yes", "Service.MemoryDenyWriteExecute": "yes",
			"Service.LockPersonality": "yes", "Service.SystemCallArchitectures": "native", "Service.Restart": "on-failure", "Service.UMask": "0077",
			"Service.TimeoutStopSec": "45",
		} {
			want[key] = value
		}
		for key, value := range want {
			if got := keys[key]; !slices.Equal(got, []string{value}) {
				t.Errorf("%s: %s = %q, want %q", file, key, got, value)
			}
		}
		if start := keys["Service.ExecStart"]; len(start) != 1 || !strings.HasSuffix(start[0], "/bin/tocsin up") {
			t.Errorf("%s starts %q, want 1 of them and start[0] that ends with \"/bin/tocsin up\"", file, start)
		}
		if filters := keys["Service.SystemCallFilter"]; len(filters) == 0 || filters[0] != "@system-service" {
			t.Errorf("%s: system calls %q, want any and filters[0] \"@system-service\"", file, filters)
		}
	}
}

// TestUnitsAreValid has systemd read them, if it is installed.
func TestUnitsAreValid(t *testing.T) {
	analyze := program(t, "systemd-analyze")
	dir := t.TempDir()
	// systemd checks that the program of the unit exists.
	bin := filepath.Join(dir, "tocsin")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"tocsin.service", "tocsin-user.service"} {
		text := string(read(t, deploy(t, "systemd", file)))
		text = strings.NewReplacer("/usr/local/bin/tocsin", bin, "%h/.local/bin/tocsin", bin).Replace(text)
		at := filepath.Join(dir, file)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"verify", "--man=no", at}
		if file == "tocsin-user.service" {
			args = slices.Insert(args, 1, "--user")
		}
		if out := must(t, dir, []string{"XDG_RUNTIME_DIR=" + dir}, analyze, args...); strings.Contains(out, file) {
			t.Errorf("got %s, want no %q in it", out, file)
		}
	}
}
