package httpservetest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// endpoint matches the first cell of a table row about a route: `METHOD /path` or `/path`.
var endpoint = regexp.MustCompile("(?m)^\\| `((?:[A-Z]+ )?/[^`]*)` \\|")

// CheckReference checks that the tables in one section of a reference page list these
// routes and no others. The page is a path from the folder of the test.
func CheckReference(t *testing.T, page, heading string, routes []string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\n## "+heading)
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range endpoint.FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if diff := cmp.Diff(slices.Sorted(slices.Values(routes)), listed); diff != "" {
		t.Errorf("the section %q of %s differs from the routes that are served (-served +page):\n%s", heading, page, diff)
	}
}
