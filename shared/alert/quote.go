package alert

import (
	"slices"
	"strings"
)

// maxQuotes is how many paths of its text an alert names, and maxQuote how long
// one is, in bytes. What is beyond is not looked at.
const (
	maxQuotes = 8
	maxQuote  = 128
)

// What a character is to a path in a text.
const (
	begins   = 1 << iota // a path may follow it: 'GET:/api/cart', "url=/api/cart"
	ends                 // it ends one
	trails               // it belongs to the sentence around it, where it is the last
	endsHost             // it ends the host of a URL
)

var chars = func() (of [256]uint8) {
	for class, all := range map[uint8]string{
		begins: " \t\n\"'`([{<=:,;|", ends: " \t\n\"'`()[]{}<>,;|?#", trails: ".:!", endsHost: " \t\n\"'`()[]{}<>,;|?#/",
	} {
		for i := range len(all) {
			of[all[i]] |= class
		}
	}
	return of
}()

// quoted adds the paths that a text holds: what begins with a slash at the
// beginning of a word, and what follows the host of a URL.
func quoted(paths []string, text string) []string {
	for i := 0; len(paths) < maxQuotes; {
		slash := strings.IndexByte(text[i:], '/')
		if slash < 0 {
			break
		}
		slash += i
		begun := slash == 0 || chars[text[slash-1]]&begins != 0
		if begun && strings.HasPrefix(text[slash:], "//") { // a host comes first
			slash = upTo(text, slash+len("//"), endsHost)
			if slash == len(text) || text[slash] != '/' {
				i = slash
				continue
			}
		}
		i = upTo(text, slash, ends)
		end := i
		for end > slash && chars[text[end-1]]&trails != 0 {
			end--
		}
		if path := text[slash:end]; begun && len(path) > 1 && len(path) <= maxQuote && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// upTo is where text has the next character of a class.
func upTo(text string, from int, class uint8) int {
	for from < len(text) && chars[text[from]]&class == 0 {
		from++
	}
	return from
}

// anID stands for an id in a path template.
const anID = ":id"

// isOf says whether a path is one of a template. Each :id stands for one or more
// characters of a segment.
func isOf(path, template string) bool {
	for {
		segment, rest, more := strings.Cut(path, "/")
		pattern, others, moreOf := strings.Cut(template, "/")
		if !segmentIsOf(segment, pattern) || more != moreOf {
			return false
		}
		if !more {
			return true
		}
		path, template = rest, others
	}
}

func segmentIsOf(segment, pattern string) bool {
	lead, pattern, ids := strings.Cut(pattern, anID)
	if !ids {
		return segment == lead
	}
	segment, ok := strings.CutPrefix(segment, lead)
	for ok && segment != "" {
		var next string
		if next, pattern, ids = strings.Cut(pattern, anID); !ids {
			return len(segment) > len(next) && strings.HasSuffix(segment, next)
		}
		at := strings.Index(segment[1:], next)
		if at < 0 {
			return false
		}
		segment = segment[1+at+len(next):]
	}
	return false
}
