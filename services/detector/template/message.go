// Package template removes the parts of a text that vary: it turns a message into its
// template and a URL into its page.
//
// Noise rules count templates, and fingerprints of errors are made from them. A template is
// a guess by the form of each word, in one pass of bounded time and without state, so the
// same text always gives the same template, and no sender can slow it down.
package template

// Bounds, in bytes.
const (
	// MaxLen is the longest template. The rest is cut off.
	MaxLen = 512
	// maxScan is how much of a text is read. Texts that differ only after it have the same
	// template.
	maxScan = 2048
)

// The placeholders. Numbers and short ids share one, because an id of random hex digits may
// have decimal digits only.
const (
	number  = "<n>"
	id      = "<id>"
	text    = "<str>"
	moment  = "<time>"
	address = "<ip>"
)

// A word of longID or more letters and digits, at least one of them a digit, is an id.
// minHex hex digits are an id rather than a number with a unit. letterHex hex digits need no
// decimal digit among them, as in deadbeef: such words are rare.
const (
	longID    = 16
	minHex    = 6
	letterHex = 8
)

// Message is Append for callers that want a string.
func Message(message string) string { return string(Append(nil, message)) }

// Append appends the template of a message to dst, at most MaxLen bytes.
//
// Numbers and ids (also hex and mixed ones) become <n>, UUIDs and long ids <id>, quoted
// strings and the query of a URL <str>, dates with or without a time of day <time>, IP
// addresses <ip>; runs of white space become one space. The names in a JSON object stay.
// Words such as user42 and 35ms keep their letters.
func Append(dst []byte, message string) []byte {
	s := scanner{in: message[:min(len(message), maxScan)], out: dst, start: len(dst), keyEnd: -1}
	s.scan()
	return s.out
}

// scanner is the state of one pass over a message.
type scanner struct {
	in    string
	pos   int
	out   []byte
	start int // where in out the template begins
	// unclosed has a bit for each kind of quote that is not closed in the rest of the
	// message, so a text full of quotes is searched once.
	unclosed byte
	// keyEnd is the index of the quote that closes a JSON name, or -1.
	keyEnd int
	// inURL reports whether the scan is within a word that contains ://.
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

// space replaces a run of white space by one space, and drops it at the start.
func (s *scanner) space() {
	s.inURL = false
	for s.pos < len(s.in) && kinds[s.in[s.pos]]&isSpace != 0 {
		s.pos++
	}
	if len(s.out) > s.start {
		s.out = append(s.out, ' ')
	}
}

// mark reads punctuation other than quotes.
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

// query replaces the part of a URL after ? or #.
func (s *scanner) query(c byte) {
	s.out = append(append(s.out, c), text...)
	for s.pos < len(s.in) && kinds[s.in[s.pos]]&(isSpace|isQuote|endsURL) == 0 {
		s.pos++
	}
}

// quote replaces a quoted string, and keeps an apostrophe.
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

// put replaces the next n bytes of the message.
func (s *scanner) put(replacement string, n int) {
	s.out = append(s.out, replacement...)
	s.pos += n
}

func (s *scanner) wordBefore() bool { return s.pos > 0 && kinds[s.in[s.pos-1]]&isWord != 0 }

func (s *scanner) digitAt(i int) bool { return i < len(s.in) && kinds[s.in[i]]&isDigit != 0 }
