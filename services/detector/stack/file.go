package stack

import "strings"

// keptSegments is how many of a path's last segments count. Those before them differ between
// builds and machines. As many more count if routers use them as parameters, as in
// [id]/page.tsx.
const keptSegments = 2

// appendFile appends the part of a file's name that is the same in every build and on every
// machine: the last segments of its path, without query, versions and hashes.
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
		if slash < 0 || web && isPage(file) {
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

// isPage reports whether a path is that of a page rather than of a script. One script can be
// inlined in many pages.
func isPage(path string) bool {
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

// appendSegment appends a segment without the words that a build generated: cart.js for
// cart-8f3c2a1b.js. If nothing is left, it appends an asterisk.
func appendSegment(dst []byte, segment string) []byte {
	begin := len(dst)
	// The hashes of Vite and Rollup have 8 characters, which include - and _.
	if dot := strings.IndexByte(segment, '.'); dot > 9 && (segment[dot-9] == '-' || segment[dot-9] == '.') && isHash(segment[dot-8:dot]) {
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

// appendWords appends the words of a segment, each with the mark before it, except those that
// a build generated.
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
		case isGenerated(word, dropped):
			dropped = true
		case dropped && len(dst) == begin && segment[0] != '.':
			dst = append(dst, word...) // without the mark, because nothing is before it
		default:
			dst = append(dst, segment[:end]...)
		}
		segment = segment[end:]
	}
	return dst
}

func isMark(c byte) bool { return c == '.' || c == '-' || c == '_' || c == '~' || c == '@' || c == '+' }

// isGenerated reports whether a word looks as if a build or a clock had generated it: a
// number, hex digits, letters and digits in turn. afterGenerated reports whether another word
// of the segment was generated; then short groups of hex digits are, too, as in a UUID.
func isGenerated(word string, afterGenerated bool) bool {
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
		return len(word) >= 6 || afterGenerated && len(word) >= 4
	case hex:
		return len(word) >= 8
	default:
		return len(word) >= 8 && changes >= 3
	}
}

// isHash reports whether 8 characters look like a hash in base 64 or 32 rather than a word:
// letters with a digit, a capital after a lower-case letter, or only capitals.
func isHash(text string) bool {
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
