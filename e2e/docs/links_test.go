package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// pages returns the Markdown pages that people read, from the root of the checkout.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}
	for _, folder := range []string{"docs", "deploy"} {
		err := filepath.WalkDir(e2etest.Path(t, folder), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
				all = append(all, strings.TrimPrefix(path, e2etest.Path(t, "")+string(filepath.Separator)))
			}
			return err
		})
		e2etest.NoError(t, err)
	}
	return all
}

var (
	fence       = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	code        = regexp.MustCompile("`[^`\n]*`")
	inlineLink  = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	htmlLink    = regexp.MustCompile(`(?:href|src|srcset)="([^"\s]+)"`)
	heading     = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	htmlAnchor  = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors that GitHub gives the headings of a page.
func anchors(text string) []string {
	var all []string
	text = fence.ReplaceAllString(text, "")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		all = append(all, anchor)
	}
	for _, m := range htmlAnchor.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestLinks checks that each relative link of a page leads to a file, and its anchor to
// a heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, page := range pages(t) {
		text := code.ReplaceAllString(fence.ReplaceAllString(e2etest.Page(t, page), ""), "")
		for _, m := range append(inlineLink.FindAllStringSubmatch(text, -1), htmlLink.FindAllStringSubmatch(text, -1)...) {
			link := m[1]
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(link, "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			info, err := os.Stat(e2etest.Path(t, target))
			if err != nil {
				t.Errorf("%s: the link %s leads to %s, which does not exist", page, link, target)
				continue
			}
			if anchor != "" && (info.IsDir() || !slices.Contains(anchors(e2etest.Page(t, target)), anchor)) {
				t.Errorf("%s: the link %s leads to a heading that %s does not have", page, link, target)
			}
		}
	}
	if checked < 50 {
		t.Errorf("got %d relative links on all pages, want at least 50: does the test still find them?", checked)
	}
}
