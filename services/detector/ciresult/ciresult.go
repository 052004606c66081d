// Package ciresult decides what a CI result is: news, or the same again.
//
// A status that differs from the latest of the same source, commit and name is
// a new alert with a key of its own, so that failure, success, failure is three
// alerts that never merge. The same status again revises the first alert of
// that run of equal results. The package remembers nothing else of a result
// and knows no clock.
package ciresult

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

const (
	// MaxResults is how many jobs of how many commits are remembered. Past it,
	// the one not heard of for the longest is forgotten; its next result is new.
	MaxResults = 1000

	// maxFailures is how many failed cases an alert's context names, and
	// maxNamed how many its detail does.
	maxFailures = 10
	maxNamed    = 3
	// maxName and maxMessage bound a failed case in the context, in characters.
	maxName    = 200
	maxMessage = 500
	// maxID is the longest alert id in a snapshot, in bytes.
	maxID = 64
)

// Results remembers the latest status of each job of each commit.
type Results struct {
	latest  *lru.Map[key, episode]
	evicted uint64
}

// key is a hash of what makes two results results of the same thing: its parts
// are as long as whoever sends them likes.
type key [16]byte

// episode is a run of results with one status.
type episode struct {
	status string
	// ordinal counts the episodes of the key, from 1.
	ordinal int
	// first is the id of the first alert of the episode.
	first string
}

// New returns a memory without results.
func New() *Results { return &Results{latest: lru.New[key, episode](MaxResults)} }

// Len is the number of jobs remembered.
func (r *Results) Len() int { return r.latest.Len() }

// Evicted is how many were forgotten for want of room since New.
func (r *Results) Evicted() uint64 { return r.evicted }

// Take makes the alert about a result; id is the one the alert will have.
func (r *Results) Take(result *ci.Result, id string) alert.Alert {
	sum := sha256.Sum256([]byte(result.Key()))
	k := key(sum[:len(key{})])
	e := r.latest.Get(k)
	a := describe(result)
	switch {
	case e == nil:
		e = r.add(k, episode{status: result.Status, ordinal: 1, first: id})
	case e.status != result.Status:
		*e = episode{status: result.Status, ordinal: e.ordinal + 1, first: id}
	default:
		a.Revises = e.first
	}
	a.DedupKey = fmt.Sprintf("ci:%s:%s:%s:%s:%d", result.Source, commit(result), result.Name, result.Status, e.ordinal)
	return a
}

func (r *Results) add(k key, e episode) *episode {
	stored, gone := r.latest.Add(k, e)
	if gone != nil {
		r.evicted++
	}
	return stored
}

// commit is the commit, or what stands in for it.
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

// detail is the summary with the first failed cases.
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
		text := untrusted.Cut(f.Name, maxName)
		if f.Message != "" {
			text += ": " + untrusted.Cut(f.Message, maxMessage)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func context(result *ci.Result) map[string]any {
	c := map[string]any{"status": result.Status, "source": result.Source, "failures": failures(result)}
	for name, value := range map[string]string{"ref": result.Ref, "commit": result.Commit, "name": result.Name} {
		if value != "" {
			c[name] = untrusted.Cut(value, maxName)
		}
	}
	if result.DurationMS > 0 {
		c["duration_ms"] = result.DurationMS
	}
	return c
}

func failures(result *ci.Result) []any {
	list := []any{}
	for _, f := range result.Failures[:min(len(result.Failures), maxFailures)] {
		list = append(list, map[string]any{
			"name": untrusted.Cut(f.Name, maxName), "message": untrusted.Cut(f.Message, maxMessage),
		})
	}
	return list
}

// Save writes the latest statuses.
func (r *Results) Save(w *snapshot.Writer) {
	w.Len(r.latest.Len())
	for k, e := range r.latest.All() {
		w.Raw(k[:])
		w.String(e.status)
		w.Len(e.ordinal)
		w.String(e.first)
	}
}

// Restore reads what Save wrote. Errors are in the reader.
func Restore(from *snapshot.Reader) *Results {
	r := New()
	for range from.Len(MaxResults) {
		var k key
		if raw := from.Raw(len(k)); copy(k[:], raw) != len(k) {
			from.Fail("a key of %d bytes", len(raw))
		}
		r.add(k, episode{status: from.String(maxID), ordinal: from.UpTo(1 << 40), first: from.String(maxID)})
	}
	return r
}
