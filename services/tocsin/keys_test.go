package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/service"
)

func makeKeys(t *testing.T, dir string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := (&keysCommand{Dir: dir}).Run(service.Env{Stdout: &out})
	return out.String(), err
}

// TestKeys expects one key for each role, which only its owner can read; a second run
// changes nothing.
func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "keys")
	if out, err := makeKeys(t, dir); err != nil || strings.Count(out, "created ") != 8 {
		t.Fatalf("tocsin keys = %q, %v, want 8 files created", out, err)
	}
	contents := func() map[string]string {
		files := map[string]string{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			files[e.Name()] = string(data)
		}
		return files
	}
	first := contents()
	if len(first) != 9 || !strings.HasPrefix(first[routesFile], "TOCSIN_ROUTES_PASSWORD=R") || len(strings.TrimSpace(first[routesFile])) < 40 {
		t.Errorf("files = %v, want 9, with a password for the routes", first)
	}
	for _, role := range append(bus.Roles(), bus.RoleProvisioner) {
		file := string(role) + ".nk"
		public, err := bus.PublicKey([]byte(first[file]))
		if err != nil {
			t.Fatal(err)
		}
		if line := role.KeyVariable() + "=" + public + "\n"; !strings.Contains(first[publicKeysFile], line) {
			t.Errorf("%s lacks %s, want it", publicKeysFile, line)
		}
		if strings.Contains(first[publicKeysFile], strings.TrimSpace(first[file])) {
			t.Errorf("%s contains the seed of %s, want only public keys", publicKeysFile, role)
		}
		for _, secret := range []string{file, routesFile} {
			if info, err := os.Stat(filepath.Join(dir, secret)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: mode %v, %v, want 0600", secret, info.Mode(), err)
			}
		}
	}
	if out, err := makeKeys(t, dir); err != nil || strings.Count(out, "kept ") != 8 {
		t.Errorf("tocsin keys again = %q, %v, want 8 files kept", out, err)
	}
	for name, content := range contents() {
		if first[name] != content {
			t.Errorf("%s has changed, want it kept", name)
		}
	}
	// A missing key is created, and the file of the public keys updated.
	if err := os.Remove(filepath.Join(dir, "dashboard.nk")); err != nil {
		t.Fatal(err)
	}
	if out, err := makeKeys(t, dir); err != nil || strings.Count(out, "created ") != 1 {
		t.Errorf("tocsin keys without one = %q, %v, want 1 file created", out, err)
	}
	if second := contents(); second[publicKeysFile] == first[publicKeysFile] || second["ingest.nk"] != first["ingest.nk"] {
		t.Errorf("files = %v, want another public key, and the other keys as before", second)
	}
}

// TestKeysThatCanNotBeUsed expects an error, and the file unchanged.
func TestKeysThatCanNotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"no key":               {content: "garbage", mode: 0o600, want: "move it away"},
		"too large":            {content: strings.Repeat("x", maxKeyFile+1), mode: 0o600, want: "move it away"},
		"other users can read": {content: "garbage", mode: 0o644, want: "chmod 600"},
		"an account's key":     {content: "SAAFJRVKJ3GGZXBUSXR3R2ZLKBLQUQUTFQ5KPYN3TWUGVNMVJ4VSBB5X7U", mode: 0o600, want: "move it away"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "ingest.nk")
			if err := os.WriteFile(file, []byte(c.content), c.mode); err != nil {
				t.Fatal(err)
			}
			out, err := makeKeys(t, dir)
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("tocsin keys = %q, %v, want an error with %q and %q", out, err, file, c.want)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != c.content {
				t.Errorf("the file = %q, %v, want %q", got, err, c.content)
			}
		})
	}
}
