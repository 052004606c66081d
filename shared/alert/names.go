package alert

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// kind is what an alert is to others that have its cause: what comes first in
// this list brings about what comes later, and nothing of its own kind. Two
// failed requests, or two errors, explain nothing of each other.
type kind int

const (
	// deployed is a CI result: what runs was changed.
	deployed kind = iota
	// requested is a request that failed, or many that did.
	requested
	// blocked is what a page's policy kept out.
	blocked
	// broken is an error, many errors, a threshold, or a fault in a cluster: that a
	// container crashed says as little of why as an error does.
	broken
	// slowed is a page that became slower.
	slowed
	// annoyed is a person who tries again and again.
	annoyed
	// apart is what belongs to nothing else, such as noise.
	apart
)

func kindOf(a Alert) kind {
	switch a.Category {
	case CI:
		return deployed
	case NetworkErrors:
		return requested
	case Security:
		return blocked
	case Errors, Threshold, Kubernetes:
		return broken
	case Anomaly:
		if a.Context[SignalKey] == SignalRequests {
			return requested
		}
		return broken
	case Regression:
		return slowed
	case UserFrustration:
		return annoyed
	default: // noise, and what a newer detector found
		return apart
	}
}

// words names the alert as a cause, with words of ours.
func words(a Alert) string {
	switch a.Category {
	case CI:
		if a.Severity == Info {
			return "the CI run"
		}
		return "the failed CI run"
	case NetworkErrors:
		return "the failed request"
	case Anomaly:
		if kindOf(a) == requested {
			return "the spike of failed requests"
		}
		return "the spike of errors"
	case Security:
		return "what was blocked"
	case Threshold:
		return "the threshold"
	case Kubernetes:
		return "the fault in the cluster"
	case Regression:
		return "the slower page"
	default: // the others are no cause: there is nothing that comes after them
		return "the error"
	}
}

// findings is what there is to know of an alert to find those that have its
// cause. It is small: those that were told are remembered so.
type findings struct {
	id, app  string
	kind     kind
	severity Severity
	since    time.Time
	seq      uint64
	// endpoint is the method and path template of a request, page that of the page.
	endpoint, page string
	// deploy is a release that is new, release any, and commit what a CI result is
	// of.
	deploy, release, commit string
	// quotes are paths that the text has.
	quotes []string
	// under says that it was told under a cause: it is none itself.
	under bool
}

// maxName bounds a name, in bytes. A longer one names nothing.
const maxName = 1 << 10

func findingsOf(p Pending) findings {
	a := p.Alert
	f := findings{
		id: a.ID, app: a.App, kind: kindOf(a), severity: a.Severity, since: p.since(), seq: a.Seq, under: a.InhibitedBy != "",
	}
	// A success that ends a failure is the run that changed what runs, all the same.
	if a.Resolved || a.Resolves != "" && a.Category != CI || a.ID == "" {
		f.kind = apart
	}
	if f.kind == apart {
		return f
	}
	said := func(key string) string {
		text, _ := a.Context[key].(string)
		if len(text) > maxName {
			return ""
		}
		return text
	}
	if f.kind == deployed { // a CI result is of no app, and of a commit alone
		f.commit = said(CommitKey)
		return f
	}
	f.endpoint, f.page, f.deploy, f.release = said(EndpointKey), said(PageKey), said(DeployKey), said(ReleaseKey)
	if f.release == "" {
		f.release = said(CommitKey)
	}
	if method, path, ok := strings.Cut(f.endpoint, " "); ok {
		if method == "GET" && f.page == "" {
			f.page = path // it is what was to become the page
		}
		return f
	}
	f.endpoint = ""
	f.quotes = quoted(f.quotes, a.Detail)
	f.quotes = quoted(f.quotes, a.Title)
	for _, key := range slices.Sorted(maps.Keys(a.Context)) { // of too many, always the same are left out
		if text, ok := a.Context[key].(string); ok {
			f.quotes = quoted(f.quotes, text)
		}
	}
	return f
}

// deploys says whether a release is that of a commit: it is the same, or has it
// as a part, in whole or in a short form of at least minHash hex digits, as
// web@9f3c2ab and v1.2.3-4-g9f3c2ab have. A word without a digit, such as unknown, dev
// or main, is what stands there where nobody knew: it is no commit.
func deploys(commit, release string) bool {
	if !strings.ContainsAny(commit, "0123456789") || release == "" {
		return false
	}
	if _, version, ok := strings.Cut(release, "@"); ok && version == commit || release == commit {
		return true
	}
	commit = strings.ToLower(commit)
	if !hash(commit) {
		return false
	}
	for part := range strings.FieldsFuncSeq(strings.ToLower(release), func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z')
	}) {
		if !hash(part) {
			part = strings.TrimPrefix(part, "g") // as git describe writes it
		}
		if hash(part) && (strings.HasPrefix(commit, part) || strings.HasPrefix(part, commit)) {
			return true
		}
	}
	return false
}

// minHash is the shortest form of a commit, in hex digits: what git shows by
// default.
const minHash = 7

func hash(text string) bool {
	return len(text) >= minHash && strings.Trim(text, "0123456789abcdef") == ""
}
