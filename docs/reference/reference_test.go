// Package reference_test compares the reference pages with the code.
package reference_test

import (
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestFields checks that a page names every JSON field of its type.
func TestFields(t *testing.T) {
	for page, types := range map[string][]any{
		"alerts.md":     {alert.Alert{}},
		"ci-results.md": {ci.Result{}, ci.Failure{}},
		"events.md": {
			telemetry.Event{}, telemetry.Log{}, telemetry.Network{}, telemetry.Vitals{}, telemetry.Action{},
			telemetry.Memory{}, telemetry.Circuit{}, telemetry.Security{},
		},
	} {
		text := read(t, page)
		for _, v := range types {
			for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name != "" && !strings.Contains(text, "`"+name+"`") {
					t.Errorf("%s: got no `%s` of %T, want it described", page, name, v)
				}
			}
		}
	}
}

// TestStreams checks the retention of every stream, and that every bucket and role is
// listed.
func TestStreams(t *testing.T) {
	text := read(t, "subjects.md")
	for _, cfg := range bus.Streams() {
		for _, want := range kept(cfg) {
			row := rowWith(text, "`"+cfg.Name+"`")
			if !strings.Contains(row, want) {
				t.Errorf("the row of %s is %q, want %q in it", cfg.Name, row, want)
			}
		}
	}
	for _, name := range bus.StreamNames() {
		short := strings.TrimPrefix(strings.TrimPrefix(name, "KV_"), "OBJ_")
		if rowWith(text, "`"+short+"`") == "" {
			t.Errorf("subjects.md: got no row with %s, want one", name)
		}
	}
	for _, role := range append(bus.Roles(), bus.RoleProvisioner) {
		if rowWith(text, "| `"+string(role)+"`") == "" {
			t.Errorf("subjects.md: got no row with the role %s, want one", role)
		}
	}
}

// kept returns the words for a stream's limits.
func kept(cfg jetstream.StreamConfig) []string {
	const day = 24 * time.Hour
	var words []string
	switch {
	case cfg.Name == bus.StreamCI: // ingest deletes down to this number
		return []string{fmt.Sprintf("newest %d", ci.MaxResults)}
	case cfg.MaxAge > day:
		words = append(words, fmt.Sprintf("%d days", cfg.MaxAge/day))
	case cfg.MaxAge > 0:
		words = append(words, fmt.Sprintf("%d h", cfg.MaxAge/time.Hour))
	}
	if cfg.MaxBytes > 0 {
		words = append(words, fmt.Sprintf("%d MiB", cfg.MaxBytes>>20))
	}
	return words
}

// TestCategories checks that the alert pages list every category and no other.
func TestCategories(t *testing.T) {
	var want []string
	for _, c := range alert.Categories() {
		want = append(want, string(c))
	}
	slices.Sort(want)
	for _, page := range []string{"alerts.md", "../alerts.md", "../../README.md"} {
		var got []string
		for _, line := range strings.Split(section(read(t, page), "category"), "\n") {
			cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cell, -1) {
				got = append(got, m[1])
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s lists the categories %v, want %v", page, got, want)
		}
	}
}

// section returns the table whose first column has this title.
func section(text, title string) string {
	_, table, _ := strings.Cut(text, "| "+title+" |")
	table, _, _ = strings.Cut(table, "\n\n")
	return table
}

// rowWith returns the table row that contains a text, or "".
func rowWith(page, text string) string {
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "|") && strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestArchitecture checks that the files and folders of ARCHITECTURE.md exist. A name
// without a slash stands in the folder of the one before it.
func TestArchitecture(t *testing.T) {
	names := regexp.MustCompile("`([a-z0-9_/]+(?:\\.[a-z]+)?)`")
	for _, line := range strings.Split(read(t, "../../ARCHITECTURE.md"), "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		dir := ""
		for _, m := range names.FindAllStringSubmatch(line, -1) {
			name := m[1]
			top, _, nested := strings.Cut(name, "/")
			rooted := nested && slices.Contains([]string{"shared", "services", "e2e", "docs"}, top)
			candidates := []string{name}
			if !rooted {
				if dir == "" || !strings.HasSuffix(name, ".go") && !nested {
					continue // an action, a word or a sub-package, which the sentence names
				}
				candidates = []string{path.Join(dir, name), path.Join(path.Dir(dir), name)}
			}
			found := ""
			for _, c := range candidates {
				if info, err := os.Stat(path.Join("../..", c)); err == nil {
					found = c
					if !info.IsDir() {
						found = path.Dir(c)
					}
					break
				}
			}
			if found == "" {
				t.Errorf("ARCHITECTURE.md names %s, which does not exist (tried %v)", name, candidates)
				continue
			}
			dir = found
		}
	}
}

// TestWhereToLook checks that one of the files in a row of the first tables of
// ARCHITECTURE.md has each identifier that the row names.
func TestWhereToLook(t *testing.T) {
	page := read(t, "../../ARCHITECTURE.md")
	tables := section(page, "question") + section(page, "to add")
	file := regexp.MustCompile("`([a-z0-9_/]+/[a-z0-9_]+\\.[a-z]+)`")
	identifier := regexp.MustCompile("`([A-Za-z]+[A-Z][A-Za-z]*|routes)`")
	checked := 0
	for _, row := range strings.Split(tables, "\n") {
		var code strings.Builder
		for _, m := range file.FindAllStringSubmatch(row, -1) {
			code.WriteString(read(t, "../../"+m[1]))
		}
		for _, m := range identifier.FindAllStringSubmatch(row, -1) {
			checked++
			if !strings.Contains(code.String(), m[1]) {
				t.Errorf("ARCHITECTURE.md: no file of this row has %q:\n%s", m[1], row)
			}
		}
	}
	if checked < 5 {
		t.Errorf("got %d identifiers in the tables, want at least 5: does the test still find them?", checked)
	}
}

// TestGlossary checks that the words of the glossary are sorted and defined once.
func TestGlossary(t *testing.T) {
	var words, keys []string
	for _, row := range strings.Split(section(read(t, "../glossary.md"), "word"), "\n") {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		for i, m := range regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(cell, -1) {
			words = append(words, strings.ToLower(m[1]))
			if i == 0 {
				keys = append(keys, strings.ToLower(m[1]))
			}
		}
	}
	if len(words) < 30 {
		t.Errorf("got %d words in the glossary, want at least 30: does the test still find them?", len(words))
	}
	if want := slices.Sorted(slices.Values(keys)); !slices.Equal(keys, want) {
		t.Errorf("got the words of the glossary in the order %q, want %q", keys, want)
	}
	slices.Sort(words)
	if once := slices.Compact(slices.Clone(words)); len(once) != len(words) {
		t.Errorf("got words of the glossary %q, want each once", words)
	}
}
