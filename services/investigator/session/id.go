package session

import (
	"crypto/sha256"
	"strings"
)

// crockford is the alphabet of ULIDs.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// idLength and idTime are the characters of a ULID, and those of its time.
const (
	idLength = 26
	idTime   = 10
)

// DeriveID returns the ULID of a part of a session: the time of the session's own id, and the
// hash of that id and the parts. Equal arguments give equal ids, so a worker that takes a session
// over gives everything the same id as the one before it.
func DeriveID(session string, parts ...string) string {
	h := sha256.New()
	h.Write([]byte(session))
	for _, p := range parts {
		h.Write([]byte{0})
		h.Write([]byte(p))
	}
	sum := h.Sum(nil)
	id := make([]byte, 0, idLength)
	if ValidID(session) {
		id = append(id, session[:idTime]...)
	} else {
		id = append(id, strings.Repeat("0", idTime)...)
	}
	for _, b := range sum[:idLength-idTime] {
		id = append(id, crockford[b&31])
	}
	return string(id)
}

// ValidID reports whether id is a ULID in its canonical form.
func ValidID(id string) bool {
	if len(id) != idLength || id[0] > '7' {
		return false
	}
	for _, c := range []byte(id) {
		if strings.IndexByte(crockford, c) < 0 {
			return false
		}
	}
	return true
}

// ThinkingEvent and ResponseEvent return the ids of the timeline events of a model interaction,
// to which the chunks of its stream belong.
func ThinkingEvent(interaction string) string { return DeriveID(interaction, "thinking") }

// ResponseEvent is like [ThinkingEvent], for the text of the answer.
func ResponseEvent(interaction string) string { return DeriveID(interaction, "response") }
