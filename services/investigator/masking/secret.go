package masking

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxDepth is how deep maps and lists are read. A text that nests deeper is withheld from
	// there on.
	maxDepth = 1000
	// maxLayers is how many times a string within a string is read, as in JSON within JSON.
	maxLayers = 6
	// endOfText stands for the end of a text.
	endOfText = math.MaxInt
)

// role is what a key, and the value under it, mean to a Secret.
type role uint8

const (
	roleNone role = iota
	roleKind
	roleVersion
	roleData
	roleItems
	roleItem
	roleMetadata
	roleAnnotations
	roleApplied
	roleReviewed
	roleReference
	roleResource
	roleOperation
	rolePath
	roleValue
)

// roleOf returns the role of a key.
func roleOf(key string) role {
	switch key {
	case "kind":
		return roleKind
	case "apiVersion", "api_version": // as Python's client writes it
		return roleVersion
	case "data", "stringData", "string_data":
		return roleData
	case "items":
		return roleItems
	case "metadata":
		return roleMetadata
	case "annotations":
		return roleAnnotations
	case "kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original", "objectset.rio.cattle.io/applied":
		return roleApplied
	case "object", "oldObject", "requestObject", "responseObject":
		return roleReviewed
	case "objectRef":
		return roleReference
	case "resource":
		return roleResource
	case "op":
		return roleOperation
	case "path":
		return rolePath
	case "value":
		return roleValue
	}
	return roleNone
}

// secretKind is the kind of a Secret.
const secretKind = "Secret"

// kind is what an object announces itself as.
type kind uint8

const (
	kindNone kind = iota
	kindOther
	kindSecret
	kindList
)

func kindOf(value string) kind {
	switch {
	case strings.EqualFold(value, secretKind):
		return kindSecret
	case strings.EqualFold(value, "SecretList"):
		return kindList
	}
	return kindOther
}

// object is a map or list that is being read.
type object struct {
	// role is that of the key under which it stands.
	role role
	// key is the role of the last key in it.
	key  role
	list bool
	kind kind
	// core is set for the API version v1.
	core bool
	// secrets are the values to mask if this is a Secret, items those of its items, to mask if
	// this is a SecretList.
	secrets, items []edit
	// reviewed are the values of the objects of an admission review or an audit event, to mask if
	// reviews is set: it is one of a Secret. refers is set if this object names the resource of one.
	reviewed []edit
	reviews  bool
	refers   bool
	// operation and patches are set for a JSON patch of the data of an object. patched is its value.
	operation, patches bool
	patched            []edit
	// broken is set if it can't be read. It is withheld from from on if it is a Secret.
	broken bool
	from   int
}

// announce records the value of the key kind or apiVersion. cut is set if the text ends with it: a
// part of Secret announces nothing then.
func (o *object) announce(key role, value string, cut bool) {
	if key == roleKind && value != "" && (!cut || value == secretKind || !strings.HasPrefix(secretKind, value)) {
		o.kind = max(o.kind, kindOf(value)) // a Secret stays one
	} else if key == roleVersion && value == "v1" {
		o.core = true
	}
}

// secret reports whether this is a Secret or a list of them. A core object with data and
// without a kind may be a Secret that was cut.
func (o *object) secret() bool {
	return o.kind >= kindSecret || o.kind == kindNone && o.core && len(o.secrets) > 0
}

// end returns the edits of an object that ends, and hands other values to its parent, which may be
// nil.
func (o *object) end(parent *object) (edits []edit) {
	if o.secret() {
		edits = slices.Clone(o.secrets)
		if o.kind == kindList {
			edits = append(edits, o.items...)
		}
		if o.broken {
			edits = append(edits, edit{from: o.from, to: endOfText, text: Withheld})
		}
	}
	if o.reviews {
		edits = append(edits, o.reviewed...)
	}
	if o.operation && o.patches {
		edits = append(edits, o.patched...)
	}
	if parent == nil {
		return edits
	}
	if o.broken {
		parent.spoil(o.from)
	}
	switch o.role {
	case roleData, roleAnnotations, roleMetadata:
		parent.secrets = merge(parent.secrets, o.secrets)
	case roleItem:
		parent.items = merge(parent.items, o.secrets)
	case roleItems:
		parent.items = merge(parent.items, o.items)
	case roleReviewed:
		parent.reviewed = merge(parent.reviewed, o.secrets)
	case roleKind:
		parent.reviews = parent.reviews || o.kind == kindSecret
	case roleReference, roleResource:
		parent.reviews = parent.reviews || o.refers
	case roleNone, roleVersion, roleApplied, roleOperation, rolePath, roleValue:
	}
	return edits
}

func (o *object) spoil(from int) {
	if !o.broken {
		o.broken, o.from = true, from
		return
	}
	o.from = min(o.from, from)
}

// merge appends the shorter list to the longer one.
func merge(a, b []edit) []edit {
	if len(a) < len(b) {
		a, b = b, a
	}
	return append(a, b...)
}

// maskSecrets masks the data of Kubernetes Secrets in YAML and JSON, also where other text
// surrounds it, or quotes and escapes it.
func maskSecrets(text string, layer int) string {
	patches := patchesSecret(text)
	if !patches && !strings.Contains(text, "kind") && !strings.Contains(text, "apiVersion") {
		return text
	}
	f := flow{text: text, layer: layer, read: map[int]bool{}, patches: patches}
	f.scan()
	b := block{text: text, regions: f.regions, read: f.read}
	b.scan()
	edits := slices.Concat(f.edits, b.edits)
	if b.diff {
		f.read = nil
	}
	if from, found := unread(text, f.read, f.quoted); found {
		edits = append(edits, edit{from: from, to: len(text), text: Withheld})
	}
	for i := range edits {
		edits[i].to = min(edits[i].to, len(text))
	}
	return apply(text, edits)
}

// patchesSecret reports whether a text may have a JSON patch of a Secret: the patch itself doesn't say
// of what it is.
func patchesSecret(text string) bool {
	return (strings.Contains(text, "/data") || strings.Contains(text, "/stringData")) && (strings.Contains(text, "secret") || strings.Contains(text, secretKind))
}

// inData reports whether a JSON pointer is one of an object's data.
func inData(pointer string) bool {
	for _, field := range []string{"/data", "/stringData"} {
		if rest, ok := strings.CutPrefix(pointer, field); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// unread looks for a Secret with data that no structure explains, as in a diff, or in lines with
// a time before each. It returns from where the text is withheld.
func unread(text string, read map[int]bool, quoted []edit) (int, bool) {
	first := -1
	for at := 0; first < 0; {
		i := strings.Index(text[at:], secretKind)
		if i < 0 {
			return 0, false
		}
		at += i
		for len(quoted) > 0 && quoted[0].to <= at {
			quoted = quoted[1:]
		}
		start := at
		at += len(secretKind)
		if !endsValue(strings.TrimPrefix(text[at:], "List")) {
			continue
		}
		if len(quoted) > 0 && quoted[0].from <= start || read[start] {
			continue
		}
		if announces(text, start) {
			first = strings.LastIndexByte(text[:start], '\n') + 1
		}
	}
	data := -1
	for at := 0; at < len(text); {
		i := strings.Index(text[at:], "ata")
		if i < 0 {
			break
		}
		at += i + 3
		if i := at - 4; i >= 0 && text[i]|0x20 == 'd' && isKey(text, at) {
			data = i
			break
		}
	}
	if data < 0 {
		return 0, false
	}
	return min(first, strings.LastIndexByte(text[:data], '\n')+1), true
}

// endsValue reports whether a value ends where rest begins. In prose further words follow.
func endsValue(rest string) bool {
	rest = strings.TrimLeft(rest, " \t")
	return rest == "" || strings.IndexByte("\r\n,}]\\\"'#", rest[0]) >= 0
}

// announces reports whether the key before the value at i is kind.
func announces(text string, i int) bool {
	k := keyBefore(text, i)
	return k >= 4 && text[k-4:k] == "kind"
}

// maxGap is how many quotes, backslashes and spaces may be around a colon.
const maxGap = 64

func gap(c byte) bool { return c == ' ' || c == '\t' || c == '"' || c == '\'' || c == '\\' }

// keyBefore returns the end of the key before the value at i, or -1.
func keyBefore(text string, i int) int {
	floor := max(i-maxGap, 0)
	for i > floor && gap(text[i-1]) {
		i--
	}
	if i == floor || text[i-1] != ':' {
		return -1
	}
	for i--; i > floor && gap(text[i-1]); i-- {
		continue
	}
	return i
}

// isKey reports whether a key ends at i.
func isKey(text string, i int) bool {
	end := min(i+maxGap, len(text))
	for i < end && gap(text[i]) {
		i++
	}
	return i < len(text) && text[i] == ':'
}

// unquote decodes the inside of a double-quoted string of JSON, YAML or Go.
func unquote(inside string) (string, bool) {
	if strings.IndexByte(inside, '\\') < 0 {
		return inside, true
	}
	var text string
	if json.Unmarshal([]byte(`"`+inside+`"`), &text) == nil {
		return text, true
	}
	text, err := strconv.Unquote(`"` + inside + `"`)
	return text, err == nil
}

// unquoteCut decodes the inside of a string that the end of the text cuts, perhaps within an
// escape.
func unquoteCut(inside string) (string, bool) {
	const longest = len(`\ud83d\ude0`)
	for n := range longest + 1 {
		if n > len(inside) {
			break
		}
		if text, ok := unquote(inside[:len(inside)-n]); ok {
			return text, true
		}
	}
	return "", false
}

// quote encodes a text as a string of JSON.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(text) != nil {
		return strconv.Quote(Withheld)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
