package gateway

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// maxFirstBlock and maxAlertsBlock bound the blocks of an answer, in bytes: a
	// model's context has no room for more, and clients reject it.
	maxFirstBlock  = 40 << 10
	maxAlertsBlock = 24 << 10
	// maxNote bounds a text of ours in the first block that says what is missing.
	maxNote = 2000
	// maxLeftOut is how many entries are counted that are left out of a page.
	maxLeftOut = 1000
)

// position is that of an entry among those of its kind. One before another is older,
// or of entries that have names: comes after it.
type position struct {
	// Seq is a sequence in a stream, and Index which of the events of that message.
	Seq   uint64 `json:"s,omitempty"`
	Index int    `json:"i,omitempty"`
	// Name is that of an app, or the sort key of a rule.
	Name string `json:"n,omitempty"`
}

// pageCursor is where a list is read on: the paging token of observe.
type pageCursor struct {
	What string `json:"w"`
	// Since is how far back the first page looked, so that no entry leaves the list
	// while it is read: milliseconds since 1970.
	Since int64 `json:"t,omitempty"`
	// Top is the newest message that the first page saw.
	Top uint64 `json:"p,omitempty"`
	position
}

// String returns the cursor as it stands in an answer.
func (c pageCursor) String() string {
	data, err := json.Marshal(c)
	if err != nil { // it holds numbers and text alone
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// parseCursor reads a cursor of an answer about what.
func parseCursor(text, what string) (c pageCursor, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(data, &c) != nil || c.What != what || c.position == (position{}) || c.Index < 0 {
		return pageCursor{}, fmt.Errorf(`before must be the value of truncated.before in an earlier answer to observe {"what":%q}`, what)
	}
	return c, nil
}

// page is a list as far as it was asked for, and what it lacks.
type page struct {
	entries []entry
	// older counts entries that were asked for beside those, at most maxLeftOut.
	older int
	// top is the newest message that was seen, where that matters to the next page.
	top        uint64
	incomplete string
	// hidden is how many events the rules of what is noise have hidden.
	hidden uint64
}

// entry is one line of a list.
type entry struct {
	value any
	at    position
}

// truncated says what is left out of a list.
type truncated struct {
	LeftOut int    `json:"left_out"`
	Before  string `json:"before,omitempty"`
}

// cutOff describes what follows the first n entries of a page, or nil where nothing
// does.
func (l look) cutOff(p page, n int) *truncated {
	leftOut := min(len(p.entries)-n+p.older, maxLeftOut)
	if leftOut <= 0 {
		return nil
	}
	t := &truncated{LeftOut: leftOut}
	if n > 0 && p.entries[n-1].at != (position{}) {
		t.Before = pageCursor{What: l.what, Since: l.from.UnixMilli(), Top: cmp.Or(l.before.Top, p.top), position: p.entries[n-1].at}.String()
	}
	return t
}

// fits writes as many entries of a page as have room for size bytes.
func (l look) fits(p page, size int) (list json.RawMessage, cut *truncated, err error) {
	values := make([]any, len(p.entries))
	for i, e := range p.entries {
		values[i] = e.value
	}
	objects, err := truncate.Encode(values)
	if err != nil {
		return nil, nil, err
	}
	objects = truncate.List(objects, size)
	return truncate.Join(objects), l.cutOff(p, len(objects)), nil
}

// block is the first block with a page in it.
func (l look) block(p page) (string, error) {
	end := struct {
		Hidden     uint64     `json:"hidden_total,omitempty"`
		Truncated  *truncated `json:"truncated,omitempty"`
		Incomplete string     `json:"incomplete,omitempty"`
	}{Hidden: p.hidden, Incomplete: sanitize.Cut(p.incomplete, maxNote)}
	// What stands around the list, at its longest.
	end.Truncated = &truncated{maxLeftOut, strings.Repeat("x", maxText)}
	around, err := encode(end)
	if err != nil {
		return "", err
	}
	list, cut, err := l.fits(p, maxFirstBlock-len(around)-2*len(l.what)-len(`{"what":"","":,`))
	if err != nil {
		return "", err
	}
	end.Truncated = cut
	if around, err = encode(end); err != nil {
		return "", err
	}
	text := `{"what":"` + l.what + `","` + l.what + `":` + string(list)
	if around != "{}" {
		return text + "," + around[1:], nil
	}
	return text + "}", nil
}

// failure is a first block with the reason why there is no list.
func (l look) failure(err error) (string, error) {
	return encode(struct {
		What  string `json:"what"`
		Error string `json:"error"`
	}{l.what, sanitize.Cut(sanitize.Visible(err.Error()), maxNote)})
}
