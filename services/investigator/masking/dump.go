package masking

import (
	"regexp"
	"strings"
)

// maskDumps masks the data of Secrets as Go prints them: by %v, %+v and %#v, by the String method
// of their type, and by %v of an object without a type.
func maskDumps(text string) string {
	var edits []edit
	named := len(text)   // where the first Secret with the names of its fields begins
	untyped := len(text) // the same of an object without a type
	for at := 0; ; {
		i := strings.Index(text[at:], secretKind)
		if i < 0 {
			break
		}
		behind := at
		i += at
		at = i + len(secretKind)
		before, after := text[max(0, i-len(`Kind:"`)):i], text[at:]
		switch {
		case strings.HasSuffix(before, "{{") && strings.HasPrefix(after, " v1}"): // %v has no names
			edits, at = maskMaps(text, at, edits)
		case strings.HasSuffix(before, "Kind:"), strings.HasSuffix(before, `Kind:"`), strings.HasPrefix(after, "{"):
			named = min(named, i)
		case strings.HasSuffix(before, "kind:") && (after == "" || strings.IndexByte(" ]\n", after[0]) >= 0):
			edits, untyped = maskUntyped(text, behind, i, edits), min(untyped, i)
		}
	}
	edits = maskFields(text, named, "Data:map", edits)
	return apply(text, maskFields(text, untyped, "stringData:map", edits))
}

// maskFields masks the maps of a field behind at.
func maskFields(text string, at int, field string, edits []edit) []edit {
	for {
		i := strings.Index(text[at:], field)
		if i < 0 {
			return edits
		}
		edits, at = maskMap(text, at+i+len(field), edits)
	}
}

// maskUntyped masks the data before the kind of a Secret at i, and behind the one before it: the keys
// of such a map are in order.
func maskUntyped(text string, behind, i int, edits []edit) []edit {
	const field = "data:map["
	from := behind + strings.LastIndexByte(text[behind:i], '\n') + 1
	from += max(0, strings.LastIndex(text[from:i], "map[apiVersion:"))
	at := strings.Index(text[from:i], field)
	if at < 0 {
		return edits
	}
	from += at + len(field)
	end := i
	if closed := strings.LastIndexByte(text[from:i], ']'); closed >= 0 {
		end = from + closed
	}
	if inside := text[from:end]; inside != "" && inside != SecretData {
		edits = append(edits, edit{from: from, to: end, text: SecretData})
	}
	return edits
}

// maskMaps masks the maps behind i, up to the end of the line or the next object.
func maskMaps(text string, i int, edits []edit) ([]edit, int) {
	for i < len(text) {
		end := i
		for end < len(text) && text[end] != '\n' && !strings.HasPrefix(text[end:], "{{") && !strings.HasPrefix(text[end:], "map[") {
			end++
		}
		if !strings.HasPrefix(text[end:], "map[") {
			return edits, end
		}
		edits, i = maskMap(text, end+len("map"), edits)
	}
	return edits, i
}

// maskMap masks the entries of a map whose type, or whose bracket, begins at i. It returns where to go
// on.
func maskMap(text string, i int, edits []edit) ([]edit, int) {
	for _, typed := range []string{"[string][]byte{", "[string][]uint8{", "[string]string{"} {
		if strings.HasPrefix(text[i:], typed) {
			i += len(typed) - 1
			break
		}
	}
	if i == len(text) || text[i] != '[' && text[i] != '{' || strings.HasPrefix(text[i:], "[string]") {
		return edits, i
	}
	end := closing(text, i)
	if inside := text[i+1 : end]; inside != "" && inside != SecretData {
		edits = append(edits, edit{from: i + 1, to: end, text: SecretData})
	}
	return edits, end
}

// closing returns where the bracket at i closes, or the end of the text. Values without quotes may have
// brackets too: the closing one stands before another value or an end.
func closing(text string, i int) int {
	open, shut, depth := text[i], byte(']'), 0
	if open == '{' {
		shut = '}'
	}
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == open:
			depth++
		case c == shut && depth > 1:
			depth--
		case c == shut && (i+1 == len(text) || strings.IndexByte(" \t\r\n,;:)}]\"'\\", text[i+1]) >= 0):
			return i
		case c == '"' && open == '{': // %#v has quotes
			i = quotedEnd(text, i) - 1
		}
	}
	return len(text)
}

// quotedEnd returns the end of the quoted string at i, or of its line.
func quotedEnd(text string, i int) int {
	for i++; i < len(text) && text[i] != '\n'; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return min(i, len(text))
}

var (
	// kindLine is the line of a Secret's kind, in YAML or in JSON with a line for each field.
	kindLine = regexp.MustCompile(`^[ \t]*"?kind"?:[ \t]+["']?Secret["']?,?[ \t]*\r?$`)
	// openingLine begins a map, and valueLine is an entry of data, or the rest of one.
	openingLine = regexp.MustCompile(`^[ \t]*[\w".-]+:[ \t]*\r?$`)
	valueLine   = regexp.MustCompile(`^[ \t]*("?[\w.-]+"?:[ \t]+)?"?[A-Za-z0-9+/=]{8,}"?,?\r?$`)
)

// maxKindLine bounds the line of a kind on each side of it, in bytes.
const maxKindLine = 256

// findKindLine returns where the first line with the kind of a Secret begins, and its column, or -1.
func findKindLine(text string) (from, column int) {
	for at := 0; ; {
		i := strings.Index(text[at:], secretKind)
		if i < 0 {
			return -1, 0
		}
		i += at
		at = i + len(secretKind)
		from := strings.LastIndexByte(text[max(0, i-maxKindLine):i], '\n') + 1 + max(0, i-maxKindLine)
		line, _, _ := strings.Cut(text[from:min(len(text), at+maxKindLine)], "\n")
		if (from == 0 || text[from-1] == '\n') && kindLine.MatchString(line) {
			return from, spaces(line, 0)
		}
	}
}

// maskHead masks what stands before the kind of a Secret that the text lacks the head of: it begins
// within the data. Its fields are ordered by name, as the API server writes them.
func maskHead(text string) string {
	from, column := findKindLine(text)
	if from <= 0 {
		return text
	}
	first, rest, several := strings.Cut(text[:from-1], "\n")
	if openingLine.MatchString(first) || first == SecretData || !several && !valueLine.MatchString(first) {
		return text
	}
	if several {
		for line := range strings.SplitSeq(rest, "\n") {
			trimmed := strings.TrimSpace(line)
			if trimmed != "" && spaces(line, 0) <= column && trimmed != "}," && trimmed != "}" {
				return text
			}
		}
	}
	return SecretData + text[from-1:]
}
