package e2etest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// Page returns the text of a Markdown page, given from the root of the checkout.
func Page(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(Path(t, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Blocks returns the fenced code blocks of a language on a page, without the fences
// and the space around them.
func Blocks(t *testing.T, page, language string) []string {
	t.Helper()
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(Page(t, page), -1) {
		all = append(all, strings.TrimSpace(m[1]))
	}
	return all
}

// Block returns the code block of a language on a page that contains a text. There
// has to be exactly one.
func Block(t *testing.T, page, language, contains string) string {
	t.Helper()
	var found []string
	for _, block := range Blocks(t, page, language) {
		if strings.Contains(block, contains) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %s blocks that contain %q: got %d, want 1", page, language, contains, len(found))
	}
	return found[0]
}

// OnBus replaces the addresses and the state directory that a page shows by those of a bus.
func OnBus(b *harness.Bus, text string) string {
	return strings.NewReplacer(
		"127.0.0.1:7400", strings.TrimPrefix(b.IngestURL, "http://"),
		"127.0.0.1:7422", strings.TrimPrefix(b.NATSURL, "nats://"),
		"http://127.0.0.1:7480", b.DashboardURL,
		"http://127.0.0.1:7490", b.InvestigatorURL,
		"~/.local/state/tocsin", b.StateDir,
	).Replace(text)
}
