package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// blanksOfLine returns the white space before an offset on its line, or false if anything
// else is there or the line is the first.
func blanksOfLine(src []byte, at int) (string, bool) {
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	blanks := string(src[start:at])
	return blanks, strings.Trim(blanks, " \t") == "" && start > 0
}

// lineIndent returns the white space at the beginning of the line of an offset.
func lineIndent(src []byte, at int) string {
	line := src[bytes.LastIndexByte(src[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// blanksBefore returns the number of blanks directly before an offset, back to from.
func blanksBefore(src []byte, from, at int) int {
	return at - from - len(bytes.TrimRight(src[from:at], " \t"))
}

// add appends a member to an object, or an element to an array if the name is empty. It
// copies the formatting of the other items.
func (d *document) add(to *hujson.Value, name string, value any) error {
	l := members(to)
	body := ""
	if name != "" {
		quoted, err := json.Marshal(name)
		if err != nil {
			return err
		}
		body = string(quoted) + ":"
		if !d.compact {
			body += " "
		}
	}
	inside := d.src[l.open+1 : l.end-1]
	inline := d.compact || len(l.items) > 0 && !bytes.ContainsRune(inside, '\n')
	outer := lineIndent(d.src, l.open)
	indent := outer + d.unit
	if len(l.items) > 0 {
		if is, ok := blanksOfLine(d.src, l.items[0].start); ok {
			indent = is
		}
	}
	text, err := d.render(value, indent, inline)
	if err != nil {
		return err
	}
	text = body + text
	if l.trailing {
		text += ","
	}

	// The new text goes before the closing bracket. A missing comma goes directly after the
	// last item, so that the item's comment stays beside it.
	from, comma := l.end-1, ""
	if len(l.items) > 0 && !l.trailing {
		from, comma = l.items[len(l.items)-1].end, ","
	}
	at := l.end - 1 - blanksBefore(d.src, l.open+1, l.end-1)
	switch {
	case len(bytes.TrimSpace(inside)) == 0 && inline:
		return d.splice(l.open+1, l.end-1, text)
	case len(bytes.TrimSpace(inside)) == 0:
		return d.splice(l.open+1, l.end-1, d.newline+indent+text+d.newline+outer)
	case inline:
		if !d.compact {
			text = " " + text
		}
	case d.src[at-1] == '\n':
		text = indent + text + d.newline
	default:
		text = d.newline + indent + text + d.newline + outer
	}
	return d.splice(min(from, at), at, comma+string(d.src[min(from, at):at])+text)
}

// drop removes an item, with its comma and its line.
func (d *document) drop(from *hujson.Value, i int) error {
	l := members(from)
	it := l.items[i]
	start, end := it.start, it.end
	kept := "" // a comment between the value and its comma
	last := i == len(l.items)-1
	if !last || l.trailing {
		kept, end = string(bytes.TrimSpace(d.src[it.end:it.comma])), it.comma+1
	}
	if kept == "" {
		start, end = d.wholeLine(l, start, end, i == 0)
	}
	text := kept
	if last && !l.trailing && i > 0 { // the comma before it goes too
		comma := l.items[i-1].comma
		text = string(d.src[comma+1:start]) + text
		start = comma
	}
	inside := string(d.src[l.open+1:start]) + text + string(d.src[end:l.end-1])
	if strings.TrimSpace(inside) == "" {
		return d.splice(l.open+1, l.end-1, "")
	}
	return d.splice(start, end, text)
}

// wholeLine widens the span of an item to its line, or to the blanks around it.
func (d *document) wholeLine(l list, start, end int, first bool) (int, int) {
	before := blanksBefore(d.src, l.open+1, start)
	after := len(d.src[end:l.end-1]) - len(bytes.TrimLeft(d.src[end:l.end-1], " \t"))
	ownLine := d.src[start-before-1] == '\n'
	rest := d.src[end+after:]
	switch {
	case ownLine && bytes.HasPrefix(rest, []byte("\r\n")):
		return start - before, end + after + 2
	case ownLine && bytes.HasPrefix(rest, []byte("\n")):
		return start - before, end + after + 1
	case ownLine && end+after == l.end-1:
		newline := start - before - 1
		if newline > l.open+1 && d.src[newline-1] == '\r' {
			newline--
		}
		return newline, end
	case first:
		return start, end + after
	}
	return start - before, end
}

// replace replaces a value.
func (d *document) replace(v *hujson.Value, value any) error {
	text, err := d.render(value, lineIndent(d.src, v.StartOffset), false)
	if err != nil {
		return fmt.Errorf("write %v: %w", value, err)
	}
	return d.splice(v.StartOffset, v.EndOffset, text)
}
