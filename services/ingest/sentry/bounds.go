package sentry

import (
	"bytes"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

// checkBounds counts the values of a payload and their depth before anything is decoded.
// It scans bytes, so it is fast and allocates nothing; it does not check that they are
// JSON.
func (d *decoder) checkBounds(payload []byte) error {
	depth := 0
	for i := 0; i < len(payload); i++ {
		switch payload[i] {
		case '"':
			i = closingQuote(payload, i+1)
		case '{', '[':
			d.parts++
			if depth++; depth > decoding.MaxDepth {
				return fmt.Errorf("a payload is nested over %d deep: %w", decoding.MaxDepth, decoding.ErrTooMany)
			}
		case '}', ']':
			depth--
		case ',':
			d.parts++
		}
	}
	if d.parts > decoding.MaxParts {
		return fmt.Errorf("the envelope has over %d values: %w", decoding.MaxParts, decoding.ErrTooMany)
	}
	return nil
}

// closingQuote returns the index of the quote that ends a string beginning at i, or len(data).
func closingQuote(data []byte, i int) int {
	for begin := i; ; i++ {
		n := bytes.IndexByte(data[min(i, len(data)):], '"')
		if n < 0 {
			return len(data)
		}
		i += n
		escapes := 0
		for j := i - 1; j >= begin && data[j] == '\\'; j-- {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}
