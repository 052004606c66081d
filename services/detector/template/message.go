// Package template turns text that differs each time into what stays the same: a message
// into its template, a URL into its page.
//
// Noise rules count templates, and fingerprints of errors are made of them. A template is a
// guess by the form of each word, made in one pass without regular expressions or memory,
// so the same text always gives the same template, and its writer can neither slow it down
// nor make it grow. The package does not know what templates are for.
package template

// Bounds, in bytes.
const (
	// MaxLen is the longest template; the rest is left out.
	MaxLen = 512
	// maxScan is how much of a text is read. Texts that differ only further on have one
	// template.
	maxScan = 2048
)

// The placeholders. Numbers and short ids share one, because an id made of
// random hex digits is now and then all digits.
const (
	number  = "<n>"
	id      = "<id>"
	text    = "<str>"
	moment  = "<time>"
	address = "<ip>"
)

// A word of longID or more letters and digits, with a digit in it, is an id. minHex hex
// digits are an id rather than a number with a unit, and letterHex need no digit among
// them: deadbeef is as likely an id as any other, and words are hardly that long.
const (
	longID    = 16
	minHex    = 6
	letterHex = 8
)

// Message is Append for callers that want a string.
func Message(message string) string { return string(Append(nil, message)) }

// Append appends the template of a message to dst, at most MaxLen bytes.
//
// Numbers and ids (also hex and mixed ones) become <n>, UUIDs and long ids
// <id>, quoted strings and the query of a URL <str>, dates with or without a
// clock <time>, IP addresses <ip>; runs of white space become one space. The
// names in a JSON object stay. A word such as user42 keeps its letters, and so
// does 35ms.
func Append(dst []byte, message string) []byte {
	s := scanner{in: message[:min(len(message), maxScan)], out: dst, start: len(dst), keyEnd: -1}
	s.scan()
	return s.out
}

// scanner holds one pass over a message.
type scanner struct {
	in    string
	pos   int
	out   []byte
	start int // where in out the template begins
	// unclosed has a bit for each kind of quote of which no closing one is to
	// come, so that a text full of quotes is not searched again for each.
	unclosed byte
	// keyEnd is where the quote stands that closes a JSON name, or -1.
	keyEnd int
	// inURL reports whether the scan is within a word with :// in it.
	inURL bool
}

func (s *scanner) scan() {
	for s.pos < len(s.in) && len(s.out)-s.start < MaxLen {
		c := s.in[s.pos]
		switch k := kinds[c]; {
		case k&isWord != 0:
			s.word()
		case k&isSpace != 0:
			s.space()
		case k&isQuote != 0:
			s.quote(c)
		default:
			s.mark(c)
		}
	}
	s.out = cut(s.out, s.start, MaxLen)
	if n := len(s.out); n > s.start && s.out[n-1] == ' ' {
		s.out = s.out[:n-1]
	}
}

// space makes one space of a run of white space, and none at the start.
func (s *scanner) space() {
	s.inURL = false
	for s.pos < len(s.in) && kinds[s.in[s.pos]]&isSpace != 0 {
		s.pos++
	}
	if len(s.out) > s.start {
		s.out = append(s.out, ' ')
	}
}

// mark takes a character that is no word, space or quote.
func (s *scanner) mark(c byte) {
	switch {
	case c == ':' && hasPrefixAt(s.in, s.pos, "://"):
		s.inURL = true
		s.put("://", 3)
		return
	case s.inURL && (c == '?' || c == '#'):
		s.query(c)
		return
	case (c == '-' || c == '+') && !s.wordBefore() && s.digitAt(s.pos+1):
		s.pos++ // a sign belongs to its number
		return
	case kinds[c]&endsURL != 0:
		s.inURL = false
	}
	s.out = append(s.out, c)
	s.pos++
}

// query takes what follows ? or # in a URL.
func (s *scanner) query(c byte) {
	s.out = append(append(s.out, c), text...)
	for s.pos < len(s.in) && kinds[s.in[s.pos]]&(isSpace|isQuote|endsURL) == 0 {
		s.pos++
	}
}

// quote takes a quoted string, or a quote that is only an apostrophe.
func (s *scanner) quote(q byte) {
	s.inURL = false
	if s.pos == s.keyEnd || q == '\'' && s.wordBefore() {
		s.put(s.in[s.pos:s.pos+1], 1)
		return
	}
	end := s.closing(q)
	switch {
	case end < 0:
		s.put(s.in[s.pos:s.pos+1], 1)
	case q == '"' && s.opensName() && end+1 < len(s.in) && s.in[end+1] == ':':
		s.keyEnd = end
		s.put(s.in[s.pos:s.pos+1], 1)
	default:
		s.put(text, end+1-s.pos)
	}
}

// closing finds the quote that ends the string that begins at pos, or -1.
func (s *scanner) closing(q byte) int {
	bit := kinds[q] & isQuote
	if s.unclosed&bit != 0 {
		return -1
	}
	for i := s.pos + 1; i < len(s.in); i++ {
		switch {
		case s.in[i] == '\\':
			i++
		case s.in[i] == q && (q != '\'' || i+1 == len(s.in) || kinds[s.in[i+1]]&isWord == 0):
			return i
		}
	}
	s.unclosed |= bit
	return -1
}

// opensName reports whether a quote at pos can open a name in a JSON object.
func (s *scanner) opensName() bool {
	i := s.pos - 1
	if i >= 0 && s.in[i] == ' ' {
		i--
	}
	return i >= 0 && (s.in[i] == '{' || s.in[i] == ',')
}

// put writes what stands for the next n bytes of the message.
func (s *scanner) put(what string, n int) {
	s.out = append(s.out, what...)
	s.pos += n
}

func (s *scanner) wordBefore() bool { return s.pos > 0 && kinds[s.in[s.pos-1]]&isWord != 0 }

func (s *scanner) digitAt(i int) bool { return i < len(s.in) && kinds[s.in[i]]&isDigit != 0 }
