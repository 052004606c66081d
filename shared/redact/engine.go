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
	// Bit r of lead[k][b] is set when byte b may be at position k of the starts of rule r.
	// A rule is tried where all three bits are set.
	lead [3][256]uint64
	// pairs has a bit for every two bytes that some rule may begin with: most positions of a
	// text are skipped by it.
	pairs [1 << 16 / 64]uint64
	// Bit r of shapes is set when rule r goes by the shape of a token alone.
	shapes uint64
	// loose are rules with so weak a criterion that they don't apply to texts with removed
	// characters.
	loose uint64
	// vendors are the tokens of vendors, and vendorBit is the bit of their rule.
	vendors   *vendors
	vendorBit uint64
	// cardBit is the bit of the rule for cards, which begins at digits.
	cardBit uint64
	// identifiers has no rule for a name and a colon, which joins the parts of identifiers.
	identifiers *Engine
}

// rule recognizes one kind of secret.
type rule struct {
	// starts are the possible beginnings of a match; fold ignores their case.
	starts []string
	fold   bool
	// short means that the first bytes alone identify a start.
	short bool
	// named reports whether it goes by a name or an encoding, not by a shape.
	named bool
	// mask replaces a match.
	mask  string
	match func(cursor) hit
}

// cursor is the input of a rule: a text, and where the start was found. A rule may read back to
// floor, where the last mask ended.
type cursor struct {
	engine    *Engine
	text      string
	at, floor int
	mode      mode
	nesting   int
	mask      string
}

// hit replaces the bytes from..to by a text. With to zero nothing was found, and retry is where the
// rule is worth trying again.
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
		if !rule.named {
			e.shapes |= 1 << r
		}
		if rule.starts == nil {
			e.vendorBit = 1 << r
			for start := range v.byStart {
				for k := range e.lead {
					e.admit(k, r, start, false)
				}
			}
		}
		if rule.mask == maskOf("card") {
			e.cardBit = 1 << r
		}
		switch rule.mask {
		case maskOf("card"), maskOf("bearer"), maskOf("basic"), maskOf("url_credentials"), maskOf("base64"):
			e.loose |= 1 << r
		}
		e.rules[r].short = isShort(rule)
		for _, start := range rule.starts {
			for k := range e.lead {
				e.admit(k, r, start, rule.fold)
			}
		}
	}
	for b := range 256 { // a card begins with four digits at least
		if !is(byte(b), classDigit) {
			e.lead[1][b] &^= e.cardBit
			e.lead[2][b] &^= e.cardBit
		}
	}
	e.pairs = v.pairs
	for first := range 256 {
		set := e.lead[0][first] &^ e.vendorBit
		if set == 0 {
			continue
		}
		for second := range 256 {
			if set&e.lead[1][second] != 0 {
				e.pairs[(first<<8|second)>>6] |= 1 << (second & 63)
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
		if len(start) > 3 || len(start) != len(first) || start[:last] != first[:last] || last > 0 && r.fold {
			return false
		}
	}
	return true
}

// admit records which bytes rule r allows at position k of one of its starts.
func (e *Engine) admit(k, r int, start string, fold bool) {
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
// interact. Where a rule panics, the whole value is masked.
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

// scan makes one pass over a text, and one over its visible characters before. It returns s itself
// when it finds nothing.
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

// pass gives all secrets in s to the editor.
func (e *Engine) pass(s string, m mode, nesting int, ed *editor) {
	var retry retries
	c := cursor{engine: e, text: s, mode: m, nesting: nesting}
	for c.at < len(s) {
		c.at = e.next(s, c.at)
		set := e.candidates(s, c.at)
		if set == 0 || set == e.cardBit && c.at > 0 && is(s[c.at-1], classDigit) && !wordStart(s, c.at) {
			c.at++
			continue
		}
		h, shape := e.try(&c, set, &retry)
		if h.to == 0 {
			c.at++
			continue
		}
		if shape {
			h.to = e.tokensEnd(c, max(h.from, c.at+1), h.to)
		}
		ed.replace(h)
		c.at, c.floor = h.to, h.to
	}
}

// next returns the first position from i on where a rule may begin, or the last of the text.
func (e *Engine) next(s string, i int) int {
	last := len(s) - 1
	if i >= last {
		return i
	}
	at, rest := uint(s[i]), s[i+1:]
	for k := range len(rest) {
		at = at<<8&0xff00 | uint(rest[k])
		if e.pairs[at>>6%uint(len(e.pairs))]>>(at%64)&1 != 0 {
			return i + k
		}
	}
	return last
}

// retries returns where in a text each rule is worth trying again.
type retries [maxRules]int

// try tries the candidates in set at the cursor until one matches. shape means that it goes by the
// shape of a token.
func (e *Engine) try(c *cursor, set uint64, retry *retries) (h hit, shape bool) {
	for ; set != 0; set &= set - 1 {
		r := bits.TrailingZeros64(set)
		if c.at < retry[r] || (!e.rules[r].short || c.at+len(e.lead) > len(c.text)) && !e.rules[r].begins(c.text[c.at:]) {
			continue
		}
		rule := &e.rules[r]
		got := rule.match(cursor{engine: e, text: c.text, at: c.at, floor: c.floor, mode: c.mode, nesting: c.nesting, mask: rule.mask})
		if got.to != 0 {
			retry[r] = got.to
			return got, !rule.named
		}
		retry[r] = got.retry
	}
	return hit{}, false
}

// tokensEnd returns where a secret at from..to ends: it includes the whole of a token that begins
// within it, such as a private key with spaces.
func (e *Engine) tokensEnd(c cursor, from, to int) int {
	var retry retries
	c.floor = from
	for c.at = from; c.at < to; c.at++ {
		if h, _ := e.try(&c, e.shapes&e.candidates(c.text, c.at), &retry); h.to > 0 {
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

// begins reports whether s begins with one of the starts. Tokens of vendors have no starts here, and
// were tried before.
func (r *rule) begins(s string) bool {
	if r.starts == nil {
		return true
	}
	for _, start := range r.starts {
		n := len(start)
		if len(s) >= n && (s[:n] == start || r.fold && strings.EqualFold(s[:n], start)) {
			return true
		}
	}
	return false
}
