package session

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNoFacts is returned when a message has no facts.
var ErrNoFacts = errors.New("the message has no facts")

// Encode returns the message that stores facts.
func Encode(facts []Fact) ([]byte, error) {
	if len(facts) == 0 {
		return nil, ErrNoFacts
	}
	b, err := json.Marshal(facts)
	if err != nil {
		return nil, fmt.Errorf("encoding %d facts: %w", len(facts), err)
	}
	return b, nil
}

// Decode returns the facts of a stored message. A fact of a kind that this version does not know
// is kept as one without content: see [Fact.Known].
func Decode(message []byte) ([]Fact, error) {
	var facts []Fact
	if err := json.Unmarshal(message, &facts); err != nil {
		return nil, fmt.Errorf("decoding the facts of a session: %w", err)
	}
	if len(facts) == 0 {
		return nil, ErrNoFacts
	}
	return facts, nil
}

// Known reports whether the fact has a content that this version understands.
func (f Fact) Known() bool {
	f.Time = f.Time.Truncate(0)
	return f != Fact{Time: f.Time}
}
