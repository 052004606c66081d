package alert

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// kind is what an alert is about. An alert can be the cause of alerts of later kinds, and of
// none of its own: two failed requests, or two errors, do not explain each other.
type kind int

const (
	// kindDeploy is a CI result: the running software was changed.
	kindDeploy kind = iota
	// kindRequest is one failed request or many.
	kindRequest
	// kindViolation is a violation of a page's content security policy.
	kindViolation
	// kindError is one error or many, a crossed threshold, or a fault in a cluster: a
	// crashed container explains as little as an error does.
	kindError
	// kindSlowPage is a page that became slower.
	kindSlowPage
	// kindFrustration is a user who tries again and again.
	kindFrustration
	// kindUnrelated is an alert without causes or symptoms, such as noise.
	kindUnrelated
)

func kindOf(a Alert) kind {
	switch a.Category {
	case CI:
		return kindDeploy
	case NetworkErrors:
		return kindRequest
	case Security:
		return kindViolation
	case Errors, Threshold, Kubernetes:
		return kindError
	case Anomaly:
		if a.Context[SignalKey] == SignalRequests {
			return kindRequest
		}
		return kindError
	case Regression:
		return kindSlowPage
	case UserFrustration:
		return kindFrustration
	default: // noise, and categories of a newer detector
		return kindUnrelated
	}
}

// causeName names an alert as a cause, without quoting it.
func causeName(a Alert) string {
	switch a.Category {
	case CI:
		if a.Severity == Info {
			return "the CI run"
		}
		return "the failed CI run"
	case NetworkErrors:
		return "the failed request"
	case Anomaly:
		if kindOf(a) == kindRequest {
			return "the spike of failed requests"
		}
		return "the spike of errors"
	case Security:
		return "the blocked content"
	case Threshold:
		return "the threshold"
	case Kubernetes:
		return "the fault in the cluster"
	case Regression:
		return "the slower page"
	default: // the other kinds are never a cause: no kind comes after them
		return "the error"
	}
}

// facts are the parts of an alert that can link it to others. Delivered alerts are
// remembered as facts, because they are small.
type facts struct {
	id, app  string
	kind     kind
	severity Severity
	since    time.Time
	seq      uint64
	// endpoint is the method and path template of a request, page the path template of a
	// page.
	endpoint, page string
	// deploy is the release that was just deployed, release the one in use, and commit that
	// of a CI result.
	deploy, release, commit string
	// paths are the URL paths in its texts.
	paths []string
	// grouped means that it was delivered under a cause, so it can be no cause itself.
	grouped bool
}

// maxName bounds a name, in bytes. A longer one is ignored.
const maxName = 1 << 10

func factsOf(p Pending) facts {
	a := p.Alert
	f := facts{
		id: a.ID, app: a.App, kind: kindOf(a), severity: a.Severity, since: p.since(), seq: a.Seq, grouped: a.InhibitedBy != "",
	}
	// A CI success that resolves a failure changed the running software all the same.
	if a.Resolved || a.OnlyInvestigation || a.Resolves != "" && a.Category != CI || a.ID == "" {
		f.kind = kindUnrelated
	}
	if f.kind == kindUnrelated {
		return f
	}
	value := func(key string) string {
		text, _ := a.Context[key].(string)
		if len(text) > maxName {
			return ""
		}
		return text
	}
	if f.kind == kindDeploy { // a CI result has a commit, and no app
		f.commit = value(CommitKey)
		return f
	}
	f.endpoint, f.page, f.deploy, f.release = value(EndpointKey), value(PageKey), value(DeployKey), value(ReleaseKey)
	if f.release == "" {
		f.release = value(CommitKey)
	}
	if method, path, ok := strings.Cut(f.endpoint, " "); ok {
		if method == "GET" && f.page == "" {
			f.page = path // the request was for the page itself
		}
		return f
	}
	f.endpoint = ""
	f.paths = mentionedPaths(f.paths, a.Detail)
	f.paths = mentionedPaths(f.paths, a.Title)
	for _, key := range slices.Sorted(maps.Keys(a.Context)) { // the order decides which are left out
		if text, ok := a.Context[key].(string); ok {
			f.paths = mentionedPaths(f.paths, text)
		}
	}
	return f
}

// isCommitOf reports whether a release has a commit: it is the same text, or has the commit as
// a part, in full or in a short form of at least minHash hex digits, as web@9f3c2ab and
// v1.2.3-4-g9f3c2ab have. A word without a digit, such as unknown, dev or main, is a
// placeholder and no commit.
func isCommitOf(commit, release string) bool {
	if !strings.ContainsAny(commit, "0123456789") || release == "" {
		return false
	}
	if _, version, ok := strings.Cut(release, "@"); ok && version == commit || release == commit {
		return true
	}
	commit = strings.ToLower(commit)
	if !isHash(commit) {
		return false
	}
	for part := range strings.FieldsFuncSeq(strings.ToLower(release), func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z')
	}) {
		if !isHash(part) {
			part = strings.TrimPrefix(part, "g") // as git describe writes it
		}
		if isHash(part) && (strings.HasPrefix(commit, part) || strings.HasPrefix(part, commit)) {
			return true
		}
	}
	return false
}

// minHash is the shortest form of a commit, in hex digits: git shows as many by default.
const minHash = 7

func isHash(text string) bool {
	return len(text) >= minHash && strings.Trim(text, "0123456789abcdef") == ""
}
