// Package redact takes secrets out of text that came from outside: log lines,
// URLs, headers, bodies and the records that hold them.
//
// It decides by two things only: the name that stands before a value (password,
// authToken, Set-Cookie) and the shape of a token (a GitHub token, a JWT, a card
// number). A secret that has neither a telling name nor a known shape is not
// recognised. It doesn't parse: JSON, forms, XML and prose are all read by one
// pass over the text, so that what is cut off or malformed is masked as well.
// Where a text has characters that nobody sees, a pass over it without them comes
// first; escapes such as \u200d within a token are not seen through.
// Where it must choose, it masks too much and not too little.
package redact

// Mask stands in place of a value that was named as a secret. A value that was
// recognised by its shape becomes "[REDACTED:<rule>]".
const Mask = "[REDACTED]"

const (
	// maxRules is how many rules an engine holds: one bit of a word each.
	maxRules = 64
	// maxRounds is how often a text is masked until nothing changes any more.
	// One that still changes then is masked whole.
	maxRounds = 6
	// maxNesting is how many layers of percent-encoding are looked through.
	maxNesting = 3
	// maxName is the longest name that is looked at, in bytes; of a longer one
	// the end counts.
	maxName = 256
	// maxQuote is how many backslashes before a quote count: those of JSON six
	// deep within JSON.
	maxQuote = 63
)

// mode says what ends an unquoted value.
type mode uint8

const (
	// modeText is prose, JSON and all that is not one of the others.
	modeText mode = iota
	// modeForm is application/x-www-form-urlencoded: only & ends a value.
	modeForm
	// modeURL is a URL: & and # end a value.
	modeURL
)
