package alert

import (
	"slices"
	"strings"
)

// Bounds of the paths that are read from the texts of an alert: how many, and how long one
// may be, in bytes.
const (
	maxPaths = 8
	maxPath  = 128
)

// Classes of characters around a path in a text.
const (
	beforePath = 1 << iota // a path may begin after it: 'GET:/api/cart', "url=/api/cart"
	afterPath              // ends a path
	trailing               // as the last character of a path it belongs to the sentence
	afterHost              // ends the host of a URL
)

var charClasses = func() (classes [256]uint8) {
	for class, all := range map[uint8]string{
		beforePath: " \t\n\"'`([{<=:,;|", afterPath: " \t\n\"'`()[]{}<>,;|?#", trailing: ".:!", afterHost: " \t\n\"'`()[]{}<>,;|?#/",
	} {
		for i := range len(all) {
			classes[all[i]] |= class
		}
	}
	return classes
}()

// mentionedPaths appends the paths in a text: words that begin with a slash, and the paths
// of URLs.
func mentionedPaths(paths []string, text string) []string {
	for i := 0; len(paths) < maxPaths; {
		slash := strings.IndexByte(text[i:], '/')
		if slash < 0 {
			break
		}
		slash += i
		starts := slash == 0 || charClasses[text[slash-1]]&beforePath != 0
		if starts && strings.HasPrefix(text[slash:], "//") { // the host of a URL
			slash = indexClass(text, slash+len("//"), afterHost)
			if slash == len(text) || text[slash] != '/' {
				i = slash
				continue
			}
		}
		i = indexClass(text, slash, afterPath)
		end := i
		for end > slash && charClasses[text[end-1]]&trailing != 0 {
			end--
		}
		if path := text[slash:end]; starts && len(path) > 1 && len(path) <= maxPath && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// indexClass returns the index of the next character of a class, or the end of the text.
func indexClass(text string, from int, class uint8) int {
	for from < len(text) && charClasses[text[from]]&class == 0 {
		from++
	}
	return from
}

// idPattern stands for an id in a path template.
const idPattern = ":id"

// matchesTemplate reports whether a path matches a template. Each :id matches one or more
// characters of a segment.
func matchesTemplate(path, template string) bool {
	for {
		segment, rest, more := strings.Cut(path, "/")
		pattern, restPattern, morePattern := strings.Cut(template, "/")
		if !segmentMatches(segment, pattern) || more != morePattern {
			return false
		}
		if !more {
			return true
		}
		path, template = rest, restPattern
	}
}

func segmentMatches(segment, pattern string) bool {
	lead, pattern, ids := strings.Cut(pattern, idPattern)
	if !ids {
		return segment == lead
	}
	segment, ok := strings.CutPrefix(segment, lead)
	for ok && segment != "" {
		var next string
		if next, pattern, ids = strings.Cut(pattern, idPattern); !ids {
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
