package stack

import "strings"

// keptSegments is how many of a path's segments count, the last: what stands before
// them is where a build or a machine has it. Of those that stand for any value, as
// routers have them ([id]/page.tsx), as many more do.
const keptSegments = 2

// appendFile appends a file as it is called in every build and on every machine: the
// last segments of its path, without query, versions and hashes.
func appendFile(dst []byte, file string) []byte {
	if scheme := strings.Index(file, "://"); scheme >= 0 { // and the host
		web := file[:scheme] == "https" || file[:scheme] == "http"
		file = file[scheme+3:]
		for _, mark := range [...]byte{'?', '#'} {
			if cut := strings.IndexByte(file, mark); cut >= 0 {
				file = file[:cut]
			}
		}
		slash := strings.IndexByte(file, '/')
		if slash < 0 || web && ofPage(file) {
			return dst // a script in the page itself
		}
		file = file[slash+1:]
	}
	file = strings.TrimPrefix(file, "file:")
	begin := len(file)
	for kept, more := 0, 0; kept < keptSegments; kept++ {
		slash := lastSlash(file[:begin])
		if slash < 0 {
			begin = 0
			break
		}
		if segment := file[slash+1 : begin]; more < keptSegments && segment != "" && (segment[0] == '[' || segment[0] == '(') {
			kept, more = kept-1, more+1
		}
		begin = slash
	}
	file = file[begin:]
	for file != "" {
		segment := file
		if slash := firstSlash(file); slash >= 0 {
			segment, file = file[:slash], file[slash+1:]
		} else {
			file = ""
		}
		if segment == "." || segment == ".." || segment == "" {
			continue
		}
		dst = appendSegment(dst, segment[:min(len(segment), maxPart/keptSegments)])
		if file != "" {
			dst = append(dst, '/')
		}
	}
	return dst
}

// ofPage reports whether what a server has at a path is a page rather than a script. One
// script stands in many pages, and is one still.
func ofPage(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return true
	}
	switch name[dot+1:] {
	case "html", "htm", "xhtml", "shtml", "php", "asp", "aspx", "jsp", "do":
		return true
	default:
		return false
	}
}

func firstSlash(path string) int {
	for i := range len(path) {
		if path[i] == '/' || path[i] == '\\' {
			return i
		}
	}
	return -1
}

// appendSegment appends a segment without the words in it that a build made: cart in
// cart-8f3c2a1b.js. Where nothing else is in it there is an asterisk.
func appendSegment(dst []byte, segment string) []byte {
	begin := len(dst)
	// Vite and Rollup have hashes of 8 characters, also - and _ among them.
	if dot := strings.IndexByte(segment, '.'); dot > 9 && (segment[dot-9] == '-' || segment[dot-9] == '.') && mixed(segment[dot-8:dot]) {
		dst = appendWords(dst, segment[:dot-9])
		if len(dst) == begin {
			dst = append(dst, '*')
		}
		return append(dst, segment[dot:]...)
	}
	dst = appendWords(dst, segment)
	if len(dst) == begin || dst[begin] == '.' {
		dst = append(dst[:begin], append([]byte{'*'}, dst[begin:]...)...)
	}
	return dst
}

// appendWords appends the words of a segment with the marks before them, but those
// that a build made.
func appendWords(dst []byte, segment string) []byte {
	begin, dropped := len(dst), false
	for segment != "" {
		mark := 0
		for mark < len(segment) && isMark(segment[mark]) {
			mark++
		}
		end := mark
		for end < len(segment) && !isMark(segment[end]) {
			end++
		}
		word := segment[mark:end]
		switch {
		case made(word, dropped):
			dropped = true
		case dropped && len(dst) == begin && segment[0] != '.':
			dst = append(dst, word...) // without the mark that nothing stands before
		default:
			dst = append(dst, segment[:end]...)
		}
		segment = segment[end:]
	}
	return dst
}

func isMark(c byte) bool { return c == '.' || c == '-' || c == '_' || c == '~' || c == '@' || c == '+' }

// made reports whether a word looks as if a build or a clock had made it rather than a
// person: a number, hex digits, letters and digits in turn. Where another word of the
// segment is made, short groups of hex digits are, too, as in a UUID.
func made(word string, another bool) bool {
	hex, letters, digits, changes := true, 0, 0, 0
	for i := range len(word) {
		c := word[i]
		switch {
		case isDigit(c):
			digits++
		case isLetter(c):
			letters++
			hex = hex && c|0x20 <= 'f'
		default:
			return false
		}
		if i > 0 && isDigit(c) != isDigit(word[i-1]) {
			changes++
		}
	}
	switch {
	case letters == 0:
		return digits > 0
	case hex && digits > 0:
		return len(word) >= 6 || another && len(word) >= 4
	case hex:
		return len(word) >= 8
	default:
		return len(word) >= 8 && changes >= 3
	}
}

// mixed reports whether 8 characters look like a hash in base 64 or 32 rather than a
// word: a digit in them, or a capital behind a small letter, or capitals alone.
func mixed(text string) bool {
	capitals, small, inside, digits := 0, 0, false, 0
	for i := range len(text) {
		switch c := text[i]; {
		case isDigit(c):
			digits++
		case c >= 'A' && c <= 'Z':
			inside = inside || small > 0
			capitals++
		case c >= 'a' && c <= 'z':
			small++
		case c != '-' && c != '_':
			return false
		}
	}
	return digits > 0 && capitals+small > 0 || inside || capitals == len(text)
}
