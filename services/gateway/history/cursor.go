package history

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// entryPosition is the position of an entry in its list, which is ordered by sequence, newest
// first, or by name.
type entryPosition struct {
	// Seq is a sequence in a stream, and Index the event within that message.
	Seq   uint64 `json:"s,omitempty"`
	Index int    `json:"i,omitempty"`
	// Name is the name of an app, or the sort key of a noise rule.
	Name string `json:"n,omitempty"`
}

// Cursor is the paging token of observe: the position at which a list continues.
type Cursor struct {
	What What `json:"w"`
	// Since is how far back the first page went, so that no entry leaves the list
	// while it is read: milliseconds since 1970. 0 means that it had no bound.
	Since int64 `json:"t,omitempty"`
	// Newest is the newest sequence that the first page contained.
	Newest uint64 `json:"p,omitempty"`
	entryPosition
}

// String returns the cursor in the form that answers have.
func (c Cursor) String() string {
	data, err := json.Marshal(c)
	if err != nil { // can't happen: it has only numbers and text
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// ParseCursor reads a cursor that an earlier answer about what returned.
func ParseCursor(text string, what What) (c Cursor, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(data, &c) != nil || c.What != what || c.entryPosition == (entryPosition{}) || c.Index < 0 {
		return Cursor{}, fmt.Errorf(`before must be the value of truncated.before in an earlier answer to observe {"what":%q}`, what)
	}
	return c, nil
}
