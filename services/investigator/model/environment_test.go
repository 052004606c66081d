package model_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sdkVariables returns the names of the environment variables in the source of both SDKs.
func sdkVariables(t *testing.T) []string {
	t.Helper()
	pattern := regexp.MustCompile(`"((?:ANTHROPIC|OPENAI|AWS|GOOGLE|AZURE|CLOUD)_[A-Z0-9_]+)"`)
	names := map[string]bool{}
	for _, module := range []string{"github.com/openai/openai-go/v3", "github.com/anthropics/anthropic-sdk-go"} {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatalf("find the source of %s: %v", module, err)
		}
		err = filepath.WalkDir(strings.TrimSpace(string(out)), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range pattern.FindAllSubmatch(text, -1) {
				names[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, known := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_PROFILE", "ANTHROPIC_OPEN_TELEMETRY"} {
		if !names[known] {
			t.Fatalf("%s is not among the %d variables of the SDKs: the search is wrong", known, len(names))
		}
	}
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}
