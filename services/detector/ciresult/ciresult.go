// Package ciresult decides whether a CI result is new.
//
// A job is identified by source, commit and name. A status that differs from the job's latest
// one is a new alert with its own dedup key: failure, success, failure is three alerts that
// never merge. The same status again revises the first alert of that series.
//
// A new success resolves the failures and errors of its branch: those of the job on the same
// ref, at any commit, or without a ref those of the same job and commit. The newest failure
// is resolved first; the success, and what revises it, has the dedup key of that failure.
// Results are ordered by arrival alone, because a result does not show which commit is newer:
// a late success of an older commit resolves the failure of a newer one.
//
// The package has no clock.
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
	// MaxResults is how many jobs are remembered. Past it, the least recently used one is
	// forgotten; its next result is new.
	MaxResults = 1000
	// MaxFailing is how many failing branches are remembered. Past it, the least recently
	// used one is forgotten, and the next success resolves nothing.
	MaxFailing = 1000

	// maxFailures is how many failed cases an alert's context names, and maxNamed how many
	// its detail names.
	maxFailures = 10
	maxNamed    = 3
	// maxName and maxMessage bound a failed case in the context, in characters.
	maxName    = 200
	maxMessage = 500
)

// Results remembers the latest status of each job, and the failures of each branch.
type Results struct {
	latest                  *lru.Map[key, episode]
	failing                 *lru.Map[key, failures]
	evicted, evictedFailing uint64 // from latest and from failing
}

// key is a hash that identifies a job or a branch by texts of any length.
type key [16]byte

func hashKey(parts ...string) key {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return key(sum[:len(key{})])
}

// branchKey returns the key of what a success fixes: the job on its ref or, without a ref,
// the job of its commit.
func branchKey(result *ci.Result) key {
	if result.Ref == "" {
		return hashKey("job", result.Key())
	}
	return hashKey("ref", result.Source, result.Ref, result.Name)
}

// episode is a series of results with one status.
type episode struct {
	status string
	// ordinal counts the episodes of the job, from 1.
	ordinal int
	// first is the id of the episode's first alert.
	first string
	// resolved are the failures that a success resolves.
	resolved failures
}

// failures are the open alerts about the failures of a branch.
type failures struct {
	open rule.Open
	// newestKey is the dedup key of the newest one.
	newestKey string
}

// New returns Results without jobs.
func New() *Results {
	return &Results{latest: lru.New[key, episode](MaxResults), failing: lru.New[key, failures](MaxFailing)}
}

// Len is the number of jobs remembered.
func (r *Results) Len() int { return r.latest.Len() }

// Evicted returns how many jobs were forgotten for lack of room since New.
func (r *Results) Evicted() uint64 { return r.evicted }

// EvictedFailing returns how many failing branches were forgotten since New. Nothing resolves
// their failures.
func (r *Results) EvictedFailing() uint64 { return r.evictedFailing }

// Pending is the alert about a result, not yet published.
type Pending struct {
	Alert       alert.Alert
	job, branch key
	episode     episode
}

// Prepare returns the alert about a result. Only [Results.MarkPublished] records the result,
// so that later results do not revise or resolve an alert that no reader has.
func (r *Results) Prepare(result *ci.Result) Pending {
	p := Pending{Alert: newAlert(result), job: hashKey(result.Key()), branch: branchKey(result)}
	last := r.latest.Get(p.job)
	switch {
	case last != nil && last.status == result.Status:
		p.episode, p.Alert.Revises = *last, last.first
	case last != nil:
		p.episode = r.newEpisode(p.branch, result.Status, last.ordinal+1)
	default:
		p.episode = r.newEpisode(p.branch, result.Status, 1)
	}
	if resolved := p.episode.resolved; resolved.open.Any() {
		resolved.open.End(&p.Alert)
		p.Alert.DedupKey = resolved.newestKey
		return p
	}
	ownKey := fmt.Sprintf("ci:%s:%s:%s:%s:%d", result.Source, commit(result), result.Name, result.Status, p.episode.ordinal)
	p.Alert.DedupKey = string(rule.Bounded([]byte(ownKey)))
	return p
}

// newEpisode returns a new episode. A success resolves all failures of the branch, also those
// of newer commits, because the order of commits is not known.
func (r *Results) newEpisode(branch key, status string, ordinal int) episode {
	e := episode{status: status, ordinal: ordinal}
	if open := r.failing.Get(branch); open != nil && status == ci.StatusSuccess {
		e.resolved = *open
	}
	return e
}

// MarkPublished records a result whose alert was published with an id.
func (r *Results) MarkPublished(p Pending, id string) {
	if p.Alert.Revises != "" {
		return
	}
	p.episode.first = id
	r.add(p.job, p.episode)
	switch {
	case p.episode.status != ci.StatusSuccess:
		failing := failures{newestKey: p.Alert.DedupKey}
		if others := r.failing.Peek(p.branch); others != nil {
			failing.open = others.open
		}
		failing.open.Add(id, p.Alert.Severity)
		r.addFailing(p.branch, failing)
	case p.episode.resolved.open.Any():
		r.failing.Delete(p.branch)
	}
}

func (r *Results) add(k key, e episode) {
	if _, evicted := r.latest.Add(k, e); evicted != nil {
		r.evicted++
	}
}

func (r *Results) addFailing(k key, f failures) {
	if _, evicted := r.failing.Add(k, f); evicted != nil {
		r.evictedFailing++
	}
}

// commit returns the commit or, without one, ref and URL.
func commit(result *ci.Result) string {
	if result.Commit != "" {
		return result.Commit
	}
	return strings.TrimSpace(result.Ref + " " + result.URL)
}

// newAlert returns the alert about a result, as if it were the first of its job.
func newAlert(result *ci.Result) alert.Alert {
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

// detail returns the summary and the first failed cases.
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
