package redact

import (
	"bytes"
	"strings"
)

// grade is how likely a name is that of a secret.
type grade uint8

const (
	// harmless names are not those of secrets.
	harmless grade = iota
	// counted names are those of secrets and of counts (tokens, pass); only text under them is
	// masked.
	counted
	// count names are those of the number of secrets (tokenCount); anything but a number under
	// them is masked.
	count
	// weak names are also plain words: after "auth: " in a log line the value must look like a
	// secret.
	weak
	// strong names are always of secrets.
	strong
)

// names holds the sensitive words, in lower case.
type names struct {
	// words match one whole word of a name.
	words map[string]grade
	// pairs match two adjacent words, without a separator. They are strong or count.
	pairs map[string]grade
	// begin has a bit for the first letter of each word and pair, by length. It lets
	// most words of names be skipped.
	begin [maxName + 1]uint32
}

// find returns the grade of a word or pair in a table.
func (n *names) find(table map[string]grade, word []byte) grade {
	if n.begin[len(word)]>>(word[0]&31)&1 == 0 {
		return harmless
	}
	return table[string(word)]
}

func sensitiveNames() names {
	n := names{words: map[string]grade{}, pairs: map[string]grade{}}
	enter := func(g grade, list string) {
		for w := range strings.FieldsSeq(list) {
			n.words[w] = g
		}
	}
	enter(strong, `password passwords passwd pwd passphrase passcode secret secrets token apikeys
		authorization credential credentials creds cookie cookies csrf xsrf jwt ssn cvv cvc sid
		sessid phpsessid jsessionid aspsessionid accesstoken refreshtoken idtoken csrftoken
		xsrftoken csrfmiddlewaretoken sessiontoken bearertoken usertoken totp dpop`)
	enter(weak, `auth authentication bearer pin otp sig signature`)
	enter(counted, `tokens pass`)
	pairs := `password passphrase passcode apikey accesskey privatekey secretkey encryptionkey
		signingkey masterkey sessionkey subscriptionkey functionskey functionkey deploykey
		licensekey storagekey sessionid cardnumber cardnum cardno ccnumber ccnum creditcard
		securitycode onetimecode verificationcode clientsecret authtoken dbpass userpass
		rootpass socialsecurity appkey`
	counts := `tokencount tokensused tokenslimit tokenlimit tokensleft tokensremaining tokentotal`
	for g, list := range map[grade]string{strong: pairs, count: counts} {
		enter(g, list)
		for p := range strings.FieldsSeq(list) {
			n.pairs[p] = g
		}
	}
	for _, table := range []map[string]grade{n.words, n.pairs} {
		for word := range table {
			n.begin[len(word)] |= 1 << (word[0] & 31)
		}
	}
	return n
}

// grade returns the grade of a name in a text, after decoding percent-encoding and JSON escapes.
// last means that the name ends in the sensitive word.
func (n *names) grade(name string) (g grade, last bool) {
	name, _ = visible(name)
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	if strings.IndexByte(name, '%') >= 0 {
		for range maxNesting {
			name = percentDecode(name)
		}
		name, _ = visible(name[strings.LastIndexAny(name, "&?#;=/")+1:])
	}
	if strings.IndexByte(name, '\\') < 0 {
		return n.gradeWords(name)
	}
	if g, last = n.gradeWords(name); g == strong {
		return g, last
	}
	plain, _ := visible(jsonDecode(name))
	if h, end := n.gradeWords(plain[strings.LastIndexAny(plain, "&?#;=")+1:]); h > g {
		return h, end
	}
	return g, last
}

// isName reports whether a word is the name of a secret itself.
func (n *names) isName(word string) bool {
	g, last := n.grade(word)
	return g == strong && last
}

// splitter iterates over the words of a name: the parts between characters other than letters, and
// within them the words of camelCase.
type splitter struct {
	names *names
	// letters holds the letters so far, in lower case, without separators.
	letters [maxName]byte
	n       int
	// Where the word before, the present one and the present part begin.
	before, word, part int
	best               grade
	last               bool
	// old and older are the best grade before the present word and before the one before it.
	old, older grade
	counts     bool
}

func (n *names) gradeWords(name string) (grade, bool) {
	if len(name) < len("pin") {
		return harmless, false
	}
	if isLowerWord(name) {
		return n.gradeWord(name)
	}
	sp := splitter{names: n}
	for i := range len(name) {
		c := name[i]
		if !isLetter(c) {
			sp.endPart()
			continue
		}
		if i > 0 && isUpper(c) && isLetter(name[i-1]) &&
			(!isUpper(name[i-1]) || i+1 < len(name) && isLetter(name[i+1]) && !isUpper(name[i+1])) {
			sp.endWord()
		}
		sp.letters[sp.n] = c | 0x20
		sp.n++
	}
	sp.endPart()
	if sp.counts {
		return max(sp.older, count), true
	}
	if sp.best <= count && !sp.last {
		return harmless, false // passRate
	}
	return sp.best, sp.last
}

// isLowerWord reports whether a name is one word of lower-case letters.
func isLowerWord(name string) bool {
	for i := range len(name) {
		if name[i] < 'a' || name[i] > 'z' {
			return false
		}
	}
	return true
}

// gradeWord is gradeWords for one word of lower-case letters, as most names are.
func (n *names) gradeWord(word string) (grade, bool) {
	if endsInPassword(word) {
		return strong, true
	}
	if n.begin[len(word)]>>(word[0]&31)&1 == 0 {
		return harmless, false
	}
	g := n.words[word]
	return g, g > harmless
}

// endsInPassword reports whether a word ends in password or passwd, such as dbpassword.
func endsInPassword(word string) bool {
	return len(word) > len("passwd") && word[len(word)-1] == 'd' && (strings.HasSuffix(word, "password") || strings.HasSuffix(word, "passwd"))
}

func (sp *splitter) endWord() {
	if sp.word == sp.n {
		return
	}
	g := sp.names.find(sp.names.words, sp.letters[sp.word:sp.n])
	if sp.word > 0 && string(sp.letters[sp.word:sp.n]) == "pat" {
		g = weak // GH_PAT; alone it is a pattern, or a person
	}
	sp.counts = false
	if sp.before < sp.word {
		pair := sp.names.find(sp.names.pairs, sp.letters[sp.before:sp.n])
		g, sp.counts = max(g, pair), pair == count
	}
	sp.old, sp.older = sp.best, sp.old
	sp.note(g)
	sp.before, sp.word = sp.word, sp.n
}

// endPart ends the word, and grades the whole part as one word: PassWord, dbpassword.
func (sp *splitter) endPart() {
	if sp.part == sp.n {
		return
	}
	sp.endWord()
	part := sp.letters[sp.part:sp.n]
	g := sp.names.find(sp.names.words, part)
	if len(part) > len("passwd") && (bytes.HasSuffix(part, []byte("password")) || bytes.HasSuffix(part, []byte("passwd"))) {
		g = strong
	}
	if g > harmless {
		sp.note(g)
	}
	sp.part = sp.n
}

func (sp *splitter) note(g grade) {
	sp.last = g > harmless
	sp.best = max(sp.best, g)
}
