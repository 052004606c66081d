package mcpevents

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// cursorVersion is the first byte of a cursor. The creation time of the stream in
// nanoseconds and the sequence follow, eight bytes each.
const cursorVersion = 1

const cursorBytes = 1 + 8 + 8

// encodeCursor returns a position as a cursor, which is opaque to the client.
func encodeCursor(p bus.Position) string {
	b := make([]byte, 0, cursorBytes)
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(p.Created.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeCursor decodes a cursor of encodeCursor. ok is false for any other text.
func decodeCursor(text string) (p bus.Position, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(cursorBytes) {
		return bus.Position{}, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != cursorBytes || b[0] != cursorVersion { // base64 ignores line ends
		return bus.Position{}, false
	}
	return bus.Position{
		Created: time.Unix(0, int64(binary.BigEndian.Uint64(b[1:]))).UTC(),
		Seq:     binary.BigEndian.Uint64(b[9:]),
	}, true
}

// startPosition returns where delivery begins for a client's cursor; nil means from now.
// truncated reports that this is not the cursor's position:
//
//   - The cursor is of another stream, or invalid: delivery begins at the oldest alert.
//   - It is older than the stream's oldest alert: delivery begins there.
//   - It is beyond the end: the bus lost its newest alerts, and reuses their sequences.
//     Delivery begins at the end.
func startPosition(cursor *string, state bus.State) (p bus.Position, truncated bool) {
	beforeFirst := max(state.First, 1) - 1
	if cursor == nil {
		return state.End(), false
	}
	p, ok := decodeCursor(*cursor)
	switch {
	case !ok || !p.SameStream(state.End()), p.Seq < beforeFirst:
		return state.End().At(beforeFirst), true
	case p.Seq > state.Last:
		return state.End(), true
	default:
		return state.End().At(p.Seq), false
	}
}

// hasGap reports whether alerts are missing between a position and the next alert: they were
// dropped from the stream, or it was recreated.
func hasGap(p, next bus.Position) bool { return !next.SameStream(p) || next.Seq != p.Seq+1 }

// positionBefore returns the position right before an alert.
func positionBefore(p bus.Position) bus.Position { return p.At(p.Seq - 1) }
