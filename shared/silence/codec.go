package silence

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The two records as they are stored on the bus.
type (
	silencesDocument struct {
		Silences Silences `json:"silences"`
	}
	acksDocument struct {
		Acks Acks `json:"acks"`
	}
)

// Encode writes the list as a JSON document.
func (l Silences) Encode() ([]byte, error) { return encode(silencesDocument{append(Silences{}, l...)}) }

// Encode writes the list as a JSON document.
func (l Acks) Encode() ([]byte, error) { return encode(acksDocument{append(Acks{}, l...)}) }

// DecodeSilences decodes a list, also that of another version: unknown members are left
// out, and so is a silence that matches nothing in particular. It keeps at most as many as
// Add does.
func DecodeSilences(data []byte) (Silences, error) {
	var d silencesDocument
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("decode the silences: %w", err)
	}
	for i := range d.Silences {
		d.Silences[i] = d.Silences[i].normalize()
	}
	return newest(slices.DeleteFunc(d.Silences, func(s Silence) bool { return !s.valid() }), MaxSilences+maxEnded), nil
}

// DecodeAcks decodes a list, also that of another version: unknown members are left out. It
// keeps at most MaxAcks.
func DecodeAcks(data []byte) (Acks, error) {
	var d acksDocument
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("decode the acknowledgements: %w", err)
	}
	for i := range d.Acks {
		d.Acks[i] = d.Acks[i].normalize()
	}
	return newest(slices.DeleteFunc(d.Acks, func(ack Ack) bool { return !ack.valid() }), MaxAcks), nil
}

// newest returns the last n entries of a list.
func newest[L ~[]E, E any](list L, n int) L { return list[max(len(list)-n, 0):] }

// encode is json.Marshal without the escaping of <, > and &, with which a text could
// exceed maxText.
func encode(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the silences: %w", err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
