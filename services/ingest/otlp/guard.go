package otlp

import (
	"errors"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

const (
	// maxMessages is how many protobuf messages, or JSON objects, one request may hold. An
	// attribute takes two: the KeyValue and its AnyValue.
	maxMessages = 2 * decoding.MaxParts
	// maxDepth is how deep values of attributes and bodies may be nested.
	maxDepth = decoding.MaxDepth
	// numbersPerMessage is how many numbers of a list count as one message: a number of one
	// byte takes eight bytes of memory once it is decoded.
	numbersPerMessage = 8
)

// guard counts the parts of a request before a decoder allocates memory for them. Its own
// memory does not grow with the request.
type guard struct {
	signal                   Signal
	items, messages, numbers int
}

// check refuses requests that are too large, and most malformed ones.
func check(signal Signal, enc Encoding, data []byte) error {
	g := guard{signal: signal}
	walk := g.protobuf
	if enc == JSON {
		walk = g.json
	}
	err := walk(data)
	if err != nil && !errors.Is(err, decoding.ErrTooMany) {
		return malformed(enc, err)
	}
	return err
}

func (g *guard) item() error {
	if g.items++; g.items > decoding.MaxItems {
		return fmt.Errorf("more than %d %s: %w", decoding.MaxItems, g.signal.items(), decoding.ErrTooMany)
	}
	return nil
}

func (g *guard) message() error { g.messages++; return g.checkMessages() }

func (g *guard) numberList(numbers int) error { g.numbers += numbers; return g.checkMessages() }

func (g *guard) checkMessages() error {
	if g.messages+g.numbers/numbersPerMessage > maxMessages {
		return fmt.Errorf("more than %d messages, two for each attribute: %w", maxMessages, decoding.ErrTooMany)
	}
	return nil
}

func tooDeep() error {
	return fmt.Errorf("values are nested more than %d deep: nest them less, or %w", maxDepth, decoding.ErrTooMany)
}
