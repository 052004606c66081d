package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// lineBlanks is the white space before an offset, where nothing else stands
// before it on its line.
func lineBlanks(src []byte, at int) (string, bool) {
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	blanks := string(src[start:at])
	return blanks, strings.Trim(blanks, " \t") == "" && start > 0
}

// lineIndent is the white space with which the line of an offset begins.
func lineIndent(src []byte, at int) string {
	line := src[bytes.LastIndexByte(src[:at], '\n')+1 : at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// blanksBefore is how many blanks end at an offset, but not before from.
func blanksBefore(src []byte, from, at int) int {
	return at - from - len(bytes.TrimRight(src[from:at], " \t"))
}

// add appends a member to an object, or, without a name, an element to an
// array, in the way the others are written.
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
		if is, ok := lineBlanks(d.src, l.items[0].start); ok {
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

	// The new text goes before the closing bracket; a comma, where one is
	// missing, right behind what was last, so that a comment stays beside it.
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

// wholeLine widens the span of an item to the line or the blanks that nothing
// else needs.
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

// replace puts another value in the place of one.
func (d *document) replace(v *hujson.Value, value any) error {
	text, err := d.render(value, lineIndent(d.src, v.StartOffset), false)
	if err != nil {
		return fmt.Errorf("write %v: %w", value, err)
	}
	return d.splice(v.StartOffset, v.EndOffset, text)
}
