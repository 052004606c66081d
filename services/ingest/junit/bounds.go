package junit

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

// maxAttrs is how many attributes one element may have: the XML decoder reads all of them
// into memory at once.
const maxAttrs = 200

var errDoctype = errors.New("the report has a DOCTYPE, which is not allowed: remove it")

// check counts the elements of a document, their depth and their attributes before the XML
// decoder reads them into memory. It does not check that the rest is XML.
func check(data []byte) error {
	depth, elements := 0, 0
	for {
		start := bytes.IndexByte(data, '<')
		if start < 0 {
			return nil
		}
		data = data[start:]
		switch {
		case bytes.HasPrefix(data, []byte("<!--")):
			data = after(data[4:], "-->")
			continue
		case bytes.HasPrefix(data, []byte("<![CDATA[")):
			data = after(data, "]]>")
			continue
		case bytes.HasPrefix(data, []byte("<!")):
			return errDoctype
		case bytes.HasPrefix(data, []byte("<?")):
			data = after(data, "?>")
			continue
		}
		length, attrs := tag(data)
		if attrs > maxAttrs {
			return fmt.Errorf("an element has more than %d attributes: %w", maxAttrs, decoding.ErrTooMany)
		}
		element := data[:length]
		data = data[length:]
		if bytes.HasPrefix(element, []byte("</")) {
			depth--
			continue
		}
		if elements++; elements > decoding.MaxParts {
			return fmt.Errorf("the report has more than %d elements: %w", decoding.MaxParts, decoding.ErrTooMany)
		}
		if bytes.HasSuffix(element, []byte("/>")) {
			continue
		}
		if depth++; depth > decoding.MaxDepth {
			return fmt.Errorf("elements are nested deeper than %d: %w", decoding.MaxDepth, decoding.ErrTooMany)
		}
	}
}

// after returns the data that follows end, or nil.
func after(data []byte, end string) []byte {
	_, rest, _ := bytes.Cut(data, []byte(end))
	return rest
}

// tag returns the length of the tag at the start of data, and how many attributes it has.
func tag(data []byte) (length, attrs int) {
	quote := byte(0)
	for i, c := range data {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"', c == '\'':
			quote = c
		case c == '=':
			attrs++
		case c == '>':
			return i + 1, attrs
		}
	}
	return len(data), attrs
}
