package redact

import (
	"math/bits"
	"slices"
	"strings"
)

// Engine masks secrets. It is safe for concurrent use.
type Engine struct {
	names names
	rules []rule
	// lead has bit r of lead[k][b] set if byte b may be at index k of a start of rule r. A rule
	// is tried where its bit is set for three bytes in a row.
	lead [3][256]uint64
	// startPairs has a bit for each pair of bytes with which a match of some rule may begin. It
	// lets most positions of a text be skipped.
	startPairs [1 << 16 / 64]uint64
	// shapeRules has the bits of the rules that recognize a token by its shape alone.
	shapeRules uint64
	// looseRules has the bits of the rules whose criteria are too weak for texts with removed
	// characters.
	looseRules uint64
	// vendors are the tokens of vendors, and vendorBit is the bit of their rule.
	vendors   *vendors
	vendorBit uint64
	// cardBit is the bit of the rule for cards, which begins at digits.
	cardBit uint64
	// identifiers is the engine for identifiers, whose parts colons join: it has no rule for a
	// name and a colon.
	identifiers *Engine
}

// rule recognizes one kind of secret.
type rule struct {
	// starts are the possible beginnings of a match, in any case if ignoreCase is set.
	starts     []string
	ignoreCase bool
	// isShort is set if lead alone identifies the starts.
	isShort bool
	// byName is set if the rule recognizes a name or an encoding, not a shape.
	byName bool
	// mask replaces a match.
	mask  string
	match func(cursor) hit
}

// cursor is the input of a rule: a text, and the position of a start. A rule may read back to
// floor, where the last mask ended.
type cursor struct {
	engine     *Engine
	text       string
	pos, floor int
	mode       mode
	nesting    int
	mask       string
}

// hit is the replacement of the bytes from..to by a text. If to is 0, nothing was found, and the
// rule need not be tried again before retry.
type hit struct {
	from, to int
	text     string
	retry    int
}

// New returns an engine with all rules.
func New() *Engine {
	rules := allRules()
	v := newVendors()
	e := newEngine(rules, v)
	e.identifiers = newEngine(slices.DeleteFunc(rules, func(r rule) bool { return slices.Contains(r.starts, ":") }), v)
	return e
}

func newEngine(rules []rule, v *vendors) *Engine {
	if len(rules) > maxRules {
		panic("redact: more rules than bits")
	}
	e := &Engine{names: sensitiveNames(), rules: slices.Clone(rules), vendors: v}
	for r, rule := range rules {
		if !rule.byName {
			e.shapeRules |= 1 << r
		}
		if rule.starts == nil {
			e.vendorBit = 1 << r
			for start := range v.byStart {
				for k := range e.lead {
					e.allowByte(k, r, start, false)
				}
			}
		}
		if rule.mask == maskOf("card") {
			e.cardBit = 1 << r
		}
		switch rule.mask {
		case maskOf("card"), maskOf("bearer"), maskOf("basic"), maskOf("url_credentials"), maskOf("base64"):
			e.looseRules |= 1 << r
		}
		e.rules[r].isShort = isShort(rule)
		for _, start := range rule.starts {
			for k := range e.lead {
				e.allowByte(k, r, start, rule.ignoreCase)
			}
		}
	}
	for b := range 256 { // a card begins with four digits at least
		if !is(byte(b), classDigit) {
			e.lead[1][b] &^= e.cardBit
			e.lead[2][b] &^= e.cardBit
		}
	}
	e.startPairs = v.pairs
	for first := range 256 {
		set := e.lead[0][first] &^ e.vendorBit
		if set == 0 {
			continue
		}
		for second := range 256 {
			if set&e.lead[1][second] != 0 {
				e.startPairs[(first<<8|second)>>6] |= 1 << (second & 63)
			}
		}
	}
	return e
}

// isShort reports whether lead alone identifies the starts of a rule: they have at most three
// bytes, and differ in the last one only.
func isShort(r rule) bool {
	for _, start := range r.starts {
		first, last := r.starts[0], len(start)-1
		if len(start) > 3 || len(start) != len(first) || start[:last] != first[:last] || last > 0 && r.ignoreCase {
			return false
		}
	}
	return true
}

// allowByte records the byte that a start of rule r has at index k.
func (e *Engine) allowByte(k, r int, start string, fold bool) {
	bit := uint64(1) << r
	if k >= len(start) {
		for b := range e.lead[k] {
			e.lead[k][b] |= bit
		}
		return
	}
	b := start[k]
	e.lead[k][b] |= bit
	if fold && isLetter(b) {
		e.lead[k][b^0x20] |= bit
	}
}

// String masks the secrets in text of any kind.
func (e *Engine) String(s string) string { return e.clean(s, modeText) }

// clean masks until the text no longer changes, so that masking is idempotent however rules
// interact. If a rule panics, the whole value is masked.
func (e *Engine) clean(s string, m mode) (out string) {
	defer func() {
		if recover() != nil {
			out = Mask
		}
	}()
	for range maxRounds {
		out = e.scan(s, m, 0)
		if out == s {
			return out
		}
		s = out
	}
	return Mask
}

// scan masks the secrets in a text: first those that show if invisible characters are removed,
// then those in the text itself. It returns s itself if there are none.
func (e *Engine) scan(s string, m mode, nesting int) string {
	if seen, gaps := visible(s); gaps != nil {
		ed := editor{text: s, gaps: gaps}
		e.pass(seen, m, nesting, &ed)
		s = ed.String()
	}
	ed := editor{text: s}
	e.pass(s, m, nesting, &ed)
	return ed.String()
}

// pass has the editor replace all secrets in s.
func (e *Engine) pass(s string, m mode, nesting int, ed *editor) {
	var retry retries
	c := cursor{engine: e, text: s, mode: m, nesting: nesting}
	for c.pos < len(s) {
		c.pos = e.nextStart(s, c.pos)
		set := e.candidates(s, c.pos)
		if set == 0 || set == e.cardBit && c.pos > 0 && is(s[c.pos-1], classDigit) && !wordStart(s, c.pos) {
			c.pos++
			continue
		}
		h, isShape := e.tryRules(&c, set, &retry)
		if h.to == 0 {
			c.pos++
			continue
		}
		if isShape {
			h.to = e.tokensEnd(c, max(h.from, c.pos+1), h.to)
		}
		ed.replace(h)
		c.pos, c.floor = h.to, h.to
	}
}

// nextStart returns the first position from i on where a match may begin, or the last position
// of the text.
func (e *Engine) nextStart(s string, i int) int {
	last := len(s) - 1
	if i >= last {
		return i
	}
	at, rest := uint(s[i]), s[i+1:]
	for k := range len(rest) {
		at = at<<8&0xff00 | uint(rest[k])
		if e.startPairs[at>>6%uint(len(e.startPairs))]>>(at%64)&1 != 0 {
			return i + k
		}
	}
	return last
}

// retries has, for each rule, the position before which it need not be tried again.
type retries [maxRules]int

// tryRules tries the candidates in set at the cursor until one matches. isShape reports whether
// that rule recognizes the shape of a token.
func (e *Engine) tryRules(c *cursor, set uint64, retry *retries) (h hit, isShape bool) {
	for ; set != 0; set &= set - 1 {
		r := bits.TrailingZeros64(set)
		if c.pos < retry[r] || (!e.rules[r].isShort || c.pos+len(e.lead) > len(c.text)) && !e.rules[r].begins(c.text[c.pos:]) {
			continue
		}
		rule := &e.rules[r]
		got := rule.match(cursor{engine: e, text: c.text, pos: c.pos, floor: c.floor, mode: c.mode, nesting: c.nesting, mask: rule.mask})
		if got.to != 0 {
			retry[r] = got.to
			return got, !rule.byName
		}
		retry[r] = got.retry
	}
	return hit{}, false
}

// tokensEnd returns the end of a secret at from..to, extended to include the whole of a token that
// begins within it, such as a private key with spaces.
func (e *Engine) tokensEnd(c cursor, from, to int) int {
	var retry retries
	c.floor = from
	for c.pos = from; c.pos < to; c.pos++ {
		if h, _ := e.tryRules(&c, e.shapeRules&e.candidates(c.text, c.pos), &retry); h.to > 0 {
			to = max(to, h.to)
		}
	}
	return to
}

// candidates returns the rules that allow the three bytes at i.
func (e *Engine) candidates(s string, i int) uint64 {
	set := e.lead[0][s[i]]
	if i+2 >= len(s) {
		return set
	}
	set &= e.lead[1][s[i+1]] & e.lead[2][s[i+2]]
	if set&e.vendorBit != 0 && !e.vendors.mayBegin(s, i) {
		set &^= e.vendorBit
	}
	return set
}

// begins reports whether s begins with one of the starts. The rule for tokens of vendors has
// none: Engine.candidates has checked them.
func (r *rule) begins(s string) bool {
	if r.starts == nil {
		return true
	}
	for _, start := range r.starts {
		n := len(start)
		if len(s) >= n && (s[:n] == start || r.ignoreCase && strings.EqualFold(s[:n], start)) {
			return true
		}
	}
	return false
}
