package conclusion

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Bounds on what enters an alert, in characters.
const (
	MaxSummary     = 600
	MaxFile        = 200
	MaxDescription = 500
)

// maxLinkRounds is the depth of nested links that are removed whole. Deeper ones lose their form and
// keep their text.
const maxLinkRounds = 4

// Summary returns the executive summary as an alert shows it: one line of at most MaxSummary
// characters, masked, without links, images, hidden or control characters.
func Summary(text string, mask *redact.Engine) string { return publish(text, mask, MaxSummary) }

// PublishedChange returns the suggested change as an alert shows it. The error is the reason why a
// conclusion publishes none. A conclusion that suggests none returns nil without an error.
func PublishedChange(c Conclusion, mask *redact.Engine) (*Change, error) {
	s := c.SuggestedChange
	if s == nil {
		return nil, nil
	}
	if c.Confidence != Proven {
		return nil, fmt.Errorf("the suggested change is left out: the confidence is %s, not proven", c.Confidence)
	}
	if len(c.Evidence) == 0 || slices.ContainsFunc(c.Evidence, func(e Evidence) bool { return !e.Supported }) {
		return nil, errors.New("the suggested change is left out: evidence is missing or not supported")
	}
	if err := checkFile(s.File, mask); err != nil {
		return nil, fmt.Errorf("the suggested change is left out: its file %w", err)
	}
	if hasCodeBlock(s.Description) {
		return nil, errors.New("the suggested change is left out: its description has a code block")
	}
	description := publish(s.Description, mask, MaxDescription)
	if description == "" {
		return nil, errors.New("the suggested change is left out: its description is empty without links")
	}
	return &Change{File: s.File, Description: description}, nil
}

// ciFiles decide what CI runs. Those with a dot at the start are refused as dotfiles. A Makefile is
// source here: people read it in the same review as the code.
var ciFiles = []string{
	"jenkinsfile", "azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", "bitbucket-pipelines.yaml",
	"appveyor.yml", "appveyor.yaml", "cloudbuild.yml", "cloudbuild.yaml", "cloudbuild.json", "buildspec.yml", "buildspec.yaml",
	"codefresh.yml", "wercker.yml", "buildkite.yml", "buildkite.yaml", "circle.yml",
}

// lockFiles are written by tools. Names that end in .lock, or have "lock" before a data format, are
// lock files as well.
var lockFiles = []string{"go.sum", "go.work.sum", "npm-shrinkwrap.json", "package.resolved", "bun.lockb"}

var lockName = regexp.MustCompile(`(\.lock|\.lockfile|[-._]lock\.(json|ya?ml|hcl|toml)|^lock\.(json|ya?ml)|^lockfile)$`)

// checkFile returns why a file may not be suggested. Case does not matter for names: some file
// systems ignore it.
func checkFile(file string, mask *redact.Engine) error {
	switch {
	case utf8.RuneCountInString(file) > MaxFile:
		return fmt.Errorf("has more than %d characters", MaxFile)
	case !utf8.ValidString(file) || sanitize.Visible(file) != file || strings.ContainsAny(file, "`<>|*?\"[]()"):
		return errors.New("has characters that no path of a source file has")
	case strings.HasPrefix(file, "/") || strings.ContainsAny(file, `\:`) || strings.HasPrefix(file, "~"):
		return errors.New("is not a path relative to the repository")
	}
	for part := range strings.SplitSeq(file, "/") {
		trimmed := strings.TrimSpace(part)
		switch {
		case trimmed == "" || trimmed != part || strings.HasSuffix(part, "."):
			return errors.New("is not a clean path")
		case strings.HasPrefix(part, "."):
			return errors.New("is a dotfile or leaves its folder")
		}
	}
	name := strings.ToLower(file[strings.LastIndexByte(file, '/')+1:])
	switch {
	case slices.Contains(ciFiles, name) || strings.HasPrefix(name, "jenkinsfile."):
		return errors.New("decides what CI runs")
	case slices.Contains(lockFiles, name) || lockName.MatchString(name):
		return errors.New("is a lock file")
	case mask.String(file) != file || stripLinks(file) != file:
		return errors.New("looks like a secret or a link")
	}
	return nil
}

var indented = regexp.MustCompile(`(?m)^( {4}|\t)\s*\S`)

func hasCodeBlock(text string) bool {
	lower := strings.ToLower(text)
	return strings.Contains(text, "```") || strings.Contains(text, "~~~") || strings.Contains(lower, "<pre") || strings.Contains(lower, "<code") || indented.MatchString(text)
}

// publish returns one line of a model's text for an alert. It masks before and after it removes
// links, because either can join what the other separated.
func publish(text string, mask *redact.Engine, limit int) string {
	text = sanitize.Visible(oneLine(mask.String(text)))
	text = mask.String(oneLine(stripLinks(text)))
	return sanitize.Cut(unlink(text), limit)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

var (
	image     = regexp.MustCompile(`!\[[^\[\]]*\](\([^()]*(\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])`)
	link      = regexp.MustCompile(`\[([^\[\]]*)\](\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])`)
	htmlTag   = regexp.MustCompile(`</?[a-zA-Z!][^<>]*>`)
	address   = regexp.MustCompile(`(?i)<?\b(?:[a-z][a-z0-9+.-]*:/+|www\.|mailto:|data:[a-z]|javascript:)[^\s<>")\]]*>?`)
	protocols = regexp.MustCompile(`(^|[\s(<\["'])//[^\s<>")\]]+`)
)

// stripLinks removes images and addresses, and leaves only the text of links.
func stripLinks(text string) string {
	for range maxLinkRounds {
		before := text
		text = htmlTag.ReplaceAllString(text, "")
		text = image.ReplaceAllString(text, "")
		text = link.ReplaceAllString(text, "$1")
		text = address.ReplaceAllString(text, "")
		text = protocols.ReplaceAllString(text, "$1")
		if text == before {
			return text
		}
	}
	return unlink(text)
}

// unlink breaks the form of what would still be a link.
func unlink(text string) string {
	text = strings.ReplaceAll(text, "](", "] (")
	text = strings.ReplaceAll(text, "][", "] [")
	return strings.ReplaceAll(text, "://", ": ")
}
