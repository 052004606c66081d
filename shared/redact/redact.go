// Package redact masks secrets in text from outside: log lines, URLs, headers, bodies and the
// records that hold them.
//
// It goes by two things only: the name before a value (password, authToken, Set-Cookie) and
// the shape of a token (a GitHub token, a JWT, a card number). A secret with neither is not
// recognized. It does not parse: one pass over the text reads JSON, forms, XML and prose
// alike, so that truncated and malformed text is masked as well. Text with invisible
// characters is read without them first; escapes such as \u200d within a token are not
// decoded. In doubt it masks too much rather than too little.
package redact

// Mask replaces a value with the name of a secret. A value with the shape of one becomes
// "[REDACTED:<rule>]".
const Mask = "[REDACTED]"

const (
	// maxRules is how many rules an engine holds: one bit of a word each.
	maxRules = 64
	// maxRounds is the most times that a text is masked until it no longer changes. One that still
	// changes then is masked as a whole.
	maxRounds = 6
	// maxNesting is how many layers of percent-encoding are decoded.
	maxNesting = 3
	// maxName is how much of a name is examined, in bytes: the end of a longer one.
	maxName = 256
	// maxQuote is how many backslashes before a quote are counted: those of JSON nested six
	// deep in JSON.
	maxQuote = 63
)

// mode determines what ends an unquoted value.
type mode uint8

const (
	// modeText is prose, JSON and anything else.
	modeText mode = iota
	// modeForm is application/x-www-form-urlencoded: only & ends a value.
	modeForm
	// modeURL is a URL: & and # end a value.
	modeURL
)
