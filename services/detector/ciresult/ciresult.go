// Package ciresult decides whether a CI result is new.
//
// A status that differs from the latest one of the same source, commit and name is a new
// alert with its own dedup key: failure, success, failure is three alerts that never merge.
// The same status again revises the first alert of that series. The package remembers
// nothing else of a result and has no clock.
//
// A new success resolves the failures and errors of its branch: of the job on that ref
// whatever the commit, or without a ref of the job of that commit. The newest comes first;
// the success has its dedup key, and so have the successes that revise it. Results are
// ordered by arrival alone: a late success of an older commit resolves the failure of a
// newer one, because a result does not show which commit is newer.
package ciresult

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// MaxResults is how many jobs of commits are remembered. Past it, the least recently
	// used one is forgotten; its next result is new.
	MaxResults = 1000
	// MaxFailing is how many failing branches are remembered. Past it, the least recently
	// used one is forgotten, and the next success resolves nothing.
	MaxFailing = 1000

	// maxFailures is how many failed cases an alert's context names, maxNamed how many its
	// detail does.
	maxFailures = 10
	maxNamed    = 3
	// maxName and maxMessage bound a failed case in the context, in characters.
	maxName    = 200
	maxMessage = 500
)

// Results remembers the latest status of each job of each commit, and what fails on each
// branch.
type Results struct {
	latest  *lru.Map[key, episode]
	failing *lru.Map[key, failures]
	// evicted and evictedFailing count what was forgotten of the two.
	evicted, evictedFailing uint64
}

// key is a hash of what results have in common that are about the same thing. Its parts can
// be of any length.
type key [16]byte

func keyOf(of ...string) key {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return key(sum[:len(key{})])
}

// branch returns the key of what a success fixes: the job on its ref, or of its commit.
func branch(result *ci.Result) key {
	if result.Ref == "" {
		return keyOf("job", result.Key())
	}
	return keyOf("ref", result.Source, result.Ref, result.Name)
}

// episode is a series of results with one status.
type episode struct {
	status string
	// ordinal counts the episodes of the key, from 1.
	ordinal int
	// first is the id of the first alert of the episode.
	first string
	// ends are the failures that a success ended.
	ends failures
}

// failures are the alerts about the failures of a branch, and the dedup key of the newest
// as it was published.
type failures struct {
	open rule.Open
	key  string
}

// New returns a memory without results.
func New() *Results {
	return &Results{latest: lru.New[key, episode](MaxResults), failing: lru.New[key, failures](MaxFailing)}
}

// Len is the number of jobs remembered.
func (r *Results) Len() int { return r.latest.Len() }

// Evicted returns how many jobs were forgotten for lack of room since New.
func (r *Results) Evicted() uint64 { return r.evicted }

// EvictedFailing returns how many failing branches were forgotten, whose failures never
// end.
func (r *Results) EvictedFailing() uint64 { return r.evictedFailing }

// Pending is the alert about a result, not yet published.
type Pending struct {
	Alert       alert.Alert
	job, branch key
	now         episode
}

// Prepare returns the alert about a result. Nothing is noted before it is published, so that
// later results do not revise or resolve an alert that no reader has.
func (r *Results) Prepare(result *ci.Result) Pending {
	t := Pending{Alert: describe(result), job: keyOf(result.Key()), branch: branch(result)}
	last := r.latest.Get(t.job)
	switch {
	case last != nil && last.status == result.Status:
		t.now, t.Alert.Revises = *last, last.first
	case last != nil:
		t.now = r.begin(t.branch, result.Status, last.ordinal+1)
	default:
		t.now = r.begin(t.branch, result.Status, 1)
	}
	if ends := t.now.ends; ends.open.Any() {
		ends.open.End(&t.Alert)
		t.Alert.DedupKey = ends.key
		return t
	}
	own := fmt.Sprintf("ci:%s:%s:%s:%s:%d", result.Source, commit(result), result.Name, result.Status, t.now.ordinal)
	t.Alert.DedupKey = string(rule.Bounded([]byte(own)))
	return t
}

// begin starts an episode. A success ends all that fails on the branch, also at newer
// commits: the order of commits is not known.
func (r *Results) begin(branch key, status string, ordinal int) episode {
	e := episode{status: status, ordinal: ordinal}
	if open := r.failing.Get(branch); open != nil && status == ci.StatusSuccess {
		e.ends = *open
	}
	return e
}

// MarkPublished notes that the alert about a result was published under an id.
func (r *Results) MarkPublished(t Pending, id string) {
	if t.Alert.Revises != "" {
		return
	}
	t.now.first = id
	r.add(t.job, t.now)
	switch {
	case t.now.status != ci.StatusSuccess:
		now := failures{key: t.Alert.DedupKey}
		if others := r.failing.Peek(t.branch); others != nil {
			now.open = others.open
		}
		now.open.Add(id, t.Alert.Severity)
		r.addFailing(t.branch, now)
	case t.now.ends.open.Any():
		r.failing.Delete(t.branch)
	}
}

func (r *Results) add(k key, e episode) {
	if _, gone := r.latest.Add(k, e); gone != nil {
		r.evicted++
	}
}

func (r *Results) addFailing(k key, f failures) {
	if _, gone := r.failing.Add(k, f); gone != nil {
		r.evictedFailing++
	}
}

// commit returns the commit, or what stands in for it.
func commit(result *ci.Result) string {
	if result.Commit != "" {
		return result.Commit
	}
	return strings.TrimSpace(result.Ref + " " + result.URL)
}

func describe(result *ci.Result) alert.Alert {
	severity := alert.Error
	if result.Status == ci.StatusSuccess {
		severity = alert.Info
	}
	title := "CI " + result.Status + ": " + result.Source
	if result.Name != "" {
		title = "CI " + result.Status + ": " + result.Name
	}
	if result.Ref != "" {
		title += " on " + result.Ref
	}
	return alert.Alert{
		Severity: severity, Category: alert.CI, Source: alert.SourceCI, URL: result.URL,
		Title: title, Detail: detail(result), Context: context(result),
	}
}

// detail returns the summary with the first failed cases.
func detail(result *ci.Result) string {
	var parts []string
	if result.Summary != "" {
		parts = append(parts, result.Summary)
	}
	for i, f := range result.Failures {
		if i == maxNamed {
			parts = append(parts, fmt.Sprintf("and %d more", len(result.Failures)-i))
			break
		}
		text := sanitize.Cut(f.Name, maxName)
		if f.Message != "" {
			text += ": " + sanitize.Cut(f.Message, maxMessage)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func context(result *ci.Result) map[string]any {
	c := map[string]any{"status": result.Status, "source": result.Source, "failures": failedCases(result)}
	for name, value := range map[string]string{"ref": result.Ref, "commit": result.Commit, "name": result.Name} {
		if value != "" {
			c[name] = sanitize.Cut(value, maxName)
		}
	}
	if result.DurationMS > 0 {
		c["duration_ms"] = result.DurationMS
	}
	return c
}

func failedCases(result *ci.Result) []any {
	list := []any{}
	for _, f := range result.Failures[:min(len(result.Failures), maxFailures)] {
		list = append(list, map[string]any{
			"name": sanitize.Cut(f.Name, maxName), "message": sanitize.Cut(f.Message, maxMessage),
		})
	}
	return list
}
