package mcpevents

import (
	"encoding/base64"
	"encoding/binary"
	"time"
)

// Position is a place in the stream of alerts: after the alert that is number
// Seq of the stream that was made at Created. Seq 0 is before the first.
type Position struct {
	Seq     uint64
	Created time.Time
}

// State is what the stream of alerts holds.
type State struct {
	Created time.Time
	// First and Last are the numbers of the oldest and the newest alert. In a
	// stream that holds none, First is Last+1.
	First, Last uint64
}

// cursorVersion is the first byte of a cursor; the rest is Created in
// nanoseconds and Seq, eight bytes each.
const cursorVersion = 1

const cursorBytes = 1 + 8 + 8

// Cursor is the position as the client gets it: text that means nothing to it.
func (p Position) Cursor() string {
	b := make([]byte, 0, cursorBytes)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Created.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads what Cursor wrote. Anything else is not ok.
func parseCursor(text string) (p Position, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorBytes) {
		return Position{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorBytes || b[0] != cursorVersion { // base64 passes over line ends
		return Position{}, false
	}
	return Position{
		Created: time.Unix(0, int64(binary.BigEndian.Uint64(b[1:]))).UTC(),
		Seq:     binary.BigEndian.Uint64(b[9:]),
	}, true
}

// begin is where delivery begins for a client's cursor; nil means from now.
// truncated says that this is not where the cursor is:
//
//   - a cursor of another stream, or none of ours: everything that is there is
//     news.
//   - one older than what the stream holds: from the oldest alert.
//   - one beyond its end: the bus has lost its newest alerts, and numbers those
//     that come as it did the lost ones. From the end.
func begin(cursor *string, s State) (at Position, truncated bool) {
	oldest := max(s.First, 1) - 1
	if cursor == nil {
		return Position{Seq: s.Last, Created: s.Created}, false
	}
	at, ok := parseCursor(*cursor)
	switch {
	case !ok || !at.Created.Equal(s.Created), at.Seq < oldest:
		return Position{Seq: oldest, Created: s.Created}, true
	case at.Seq > s.Last:
		return Position{Seq: s.Last, Created: s.Created}, true
	default:
		return Position{Seq: at.Seq, Created: s.Created}, false
	}
}

// skips says whether alerts are missing between a place and the next alert that
// came: they were dropped from the stream, or it was made anew.
func (p Position) skips(next Position) bool {
	return !next.Created.Equal(p.Created) || next.Seq != p.Seq+1
}

// before is the place right before the alert at p.
func (p Position) before() Position { return Position{Seq: p.Seq - 1, Created: p.Created} }
