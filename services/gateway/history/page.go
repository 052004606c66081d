package history

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// MaxBlock bounds the first block of an answer, in bytes: a model's context has
	// no room for more, and clients reject it.
	MaxBlock = 40 << 10
	// maxNote bounds the note about what is missing, in characters.
	maxNote = 2000
	// maxLeftOut bounds the count of entries that a page leaves out.
	maxLeftOut = 1000
)

// page is the part of a list that a query selects, and what it lacks.
type page struct {
	entries []entry
	// older counts further entries that match, at most maxLeftOut.
	older int
	// newest is the newest sequence that was read, if the next page needs it.
	newest uint64
	// incomplete is a note about what could not be read.
	incomplete string
	// hidden is how many events the noise rules have hidden, in a list of noise rules.
	hidden uint64
}

// entry is one line of a list.
type entry struct {
	value    any
	position entryPosition
}

// truncated describes what is left out of a list.
type truncated struct {
	LeftOut int    `json:"left_out"`
	Before  string `json:"before,omitempty"`
}

// longestTruncated returns the longest one that an answer can have.
func longestTruncated() *truncated { return &truncated{maxLeftOut, strings.Repeat("x", MaxText)} }

// truncation describes what follows the first n entries of a page. It returns nil if nothing
// does.
func (q Query) truncation(p page, n int) *truncated {
	leftOut := min(len(p.entries)-n+p.older, maxLeftOut)
	if leftOut <= 0 {
		return nil
	}
	t := &truncated{LeftOut: leftOut}
	if n > 0 && p.entries[n-1].position != (entryPosition{}) {
		next := Cursor{What: q.What, Newest: cmp.Or(q.Before.Newest, p.newest), entryPosition: p.entries[n-1].position}
		if !q.From.IsZero() {
			next.Since = q.From.UnixMilli()
		}
		t.Before = next.String()
	}
	return t
}

// list encodes as many entries of a page as fit in size bytes.
func (q Query) list(p page, size int) (list json.RawMessage, cut *truncated, err error) {
	values := make([]any, len(p.entries))
	for i, e := range p.entries {
		values[i] = e.value
	}
	objects, err := truncate.Encode(values)
	if err != nil {
		return nil, nil, err
	}
	objects = truncate.List(objects, size)
	return truncate.Join(objects), q.truncation(p, len(objects)), nil
}

// block encodes a page as the first block of an answer.
func (q Query) block(p page) (string, error) {
	end := struct {
		Hidden     uint64     `json:"hidden_total,omitempty"`
		Truncated  *truncated `json:"truncated,omitempty"`
		Incomplete string     `json:"incomplete,omitempty"`
	}{Hidden: p.hidden, Incomplete: sanitize.Cut(p.incomplete, maxNote)}
	end.Truncated = longestTruncated()
	around, err := Encode(end)
	if err != nil {
		return "", err
	}
	what := string(q.What)
	list, cut, err := q.list(p, MaxBlock-len(around)-2*len(what)-len(`{"what":"","":,`))
	if err != nil {
		return "", err
	}
	end.Truncated = cut
	if around, err = Encode(end); err != nil {
		return "", err
	}
	text := `{"what":"` + what + `","` + what + `":` + string(list)
	if around != "{}" {
		return text + "," + around[1:], nil
	}
	return text + "}", nil
}

// failureBlock encodes a first block with the reason why there is no list.
func (q Query) failureBlock(err error) (string, error) {
	return Encode(struct {
		What  What   `json:"what"`
		Error string `json:"error"`
	}{q.What, sanitize.Cut(sanitize.Visible(err.Error()), maxNote)})
}

// pageByName adds to a page the entries that follow the cursor, in the order of their names.
func (q Query) pageByName(p page, all []entry) page {
	slices.SortStableFunc(all, func(a, b entry) int { return strings.Compare(a.position.Name, b.position.Name) })
	all = slices.DeleteFunc(all, func(e entry) bool { return e.position.Name <= q.Before.Name && q.Before.Name != "" })
	n := min(len(all), q.Limit)
	p.entries, p.older = all[:n], len(all)-n
	return p
}

// Encode returns v as JSON, without the escaping of <, > and & that a model would have
// to read.
func Encode(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
