package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// TestSettingsReference checks that docs/reference/settings.md lists every environment
// variable that a flag reads, and no other.
func TestSettingsReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(string(page), -1) {
		prefix := ""
		for _, name := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(row[1], -1) {
			if strings.HasPrefix(name[1], "_") { // `TOCSIN_NOTIFY_DESKTOP`, `_FILE`
				name[1] = prefix[:strings.LastIndexByte(prefix, '_')] + name[1]
			} else {
				prefix = name[1]
			}
			documented = append(documented, name[1])
		}
	}
	for _, name := range regexp.MustCompile("called `([A-Z_]+)`").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, name[1])
	}

	parser, err := service.NewParser(&cli{}, kong.Configuration(noSettings))
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	err = kong.Visit(parser.Model.Node, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			read = append(read, flag.Envs...)
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range read {
		if !slices.Contains(documented, name) {
			t.Errorf("settings.md does not list %s", name)
		}
	}
	for _, name := range documented {
		if strings.HasPrefix(name, "TOCSIN_") && !slices.Contains(read, name) && name != "TOCSIN_STATE_DIR" {
			t.Errorf("settings.md lists %s, which no flag reads", name)
		}
	}
}
