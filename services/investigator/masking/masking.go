// Package masking masks secrets in the texts that enter an investigation: by redaction as in the
// rest of Tocsin, Kubernetes Secrets by their structure, and then by configured patterns. It is
// pure. It does not know where a text comes from.
//
// A text that announces a Secret and can't be read is withheld from there on.
package masking

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// MaxText is the longest text that is masked, in bytes. A longer one is withheld.
	MaxText = 8 << 20
	// MaxCustom is the most custom patterns of a configuration.
	MaxCustom = 50
	// Withheld stands for text that could not be masked.
	Withheld = "[withheld: the text could not be masked]"
	// SecretData stands for a value of a Kubernetes Secret.
	SecretData = "[MASKED_SECRET_DATA]"

	// maxRounds is the number of rounds after which masking must no longer change a text. One that
	// still changes then is withheld.
	maxRounds = 6
)

// Errors of New.
var (
	ErrGroup   = errors.New("unknown group of masking patterns")
	ErrPattern = errors.New("unknown masking pattern")
	ErrCustom  = errors.New("invalid custom masking pattern")
)

// customName is the name of a custom pattern.
var customName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// Config selects the patterns. The zero value has none: redaction and the masking of Kubernetes
// Secrets are always on.
type Config struct {
	Groups, Patterns []string
	// Custom are applied after the others, in order.
	Custom []Custom
}

// Custom is a pattern of the user. Its matches become [MASKED_NAME], in capitals.
type Custom struct {
	Name string
	// Pattern is a regular expression of Go. The time that it takes is the user's concern.
	Pattern string
}

// Masker masks texts. It is safe for concurrent use.
type Masker struct {
	redact   *redact.Engine
	patterns []pattern
	custom   []custom
	digest   string
}

type custom struct {
	mask string
	re   *regexp.Regexp
}

// New returns a masker. The error joins one for each unknown name and invalid custom pattern.
func New(c Config) (*Masker, error) {
	var errs []error
	selected := map[string]bool{}
	for _, group := range c.Groups {
		members, ok := groups[group]
		if !ok {
			errs = append(errs, fmt.Errorf("%w: %q is none of %s", ErrGroup, group, strings.Join(Groups(), ", ")))
		}
		for _, name := range members {
			selected[name] = true
		}
	}
	for _, name := range c.Patterns {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("%w: %q is none of %s", ErrPattern, name, strings.Join(Names(), ", ")))
		}
		selected[name] = true
	}
	if len(c.Custom) > MaxCustom {
		errs = append(errs, fmt.Errorf("%w: %d are more than %d", ErrCustom, len(c.Custom), MaxCustom))
	}
	m := &Masker{redact: redact.New(), digest: digest(selected, c.Custom)}
	for _, name := range names { // their order, not that of the configuration
		if match := patterns[name]; selected[name] && match != nil {
			m.patterns = append(m.patterns, pattern{mask: maskOf(name), match: match})
		}
	}
	for _, p := range c.Custom {
		re, err := regexp.Compile(p.Pattern)
		switch {
		case !customName.MatchString(p.Name):
			err = errors.New("want a name of letters, digits and underscores, at most 64")
		case err == nil && re.MatchString(""):
			err = errors.New("it matches the empty text, and so everywhere")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w %q: %w", ErrCustom, p.Name, err))
			continue
		}
		m.custom = append(m.custom, custom{mask: maskOf(p.Name), re: re})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return m, nil
}

// digest identifies a configuration: equal digests mask equally.
func digest(selected map[string]bool, custom []Custom) string {
	const version = 3 // of the patterns and of the Secret's structure
	var chosen []string
	for _, name := range names {
		if selected[name] && name != kubernetesSecret {
			chosen = append(chosen, name)
		}
	}
	encoded, err := json.Marshal([]any{version, chosen, append([]Custom{}, custom...)})
	if err != nil {
		panic(err) // strings and numbers alone
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:16])
}

// Digest identifies the configuration.
func (m *Masker) Digest() string { return m.digest }

// Mask masks the secrets in a text. Masking again changes nothing. A text over [MaxText], or one
// that can't be masked, becomes [Withheld].
func (m *Masker) Mask(text string) (masked string) {
	if len(text) > MaxText || text == Withheld {
		return Withheld
	}
	defer func() {
		if recover() != nil {
			masked = Withheld
		}
	}()
	for range maxRounds {
		masked = m.once(text)
		if masked == text {
			return masked
		}
		text = masked
	}
	return Withheld
}

func (m *Masker) once(text string) string {
	if strings.Contains(text, secretKind) {
		text = maskHead(maskDumps(text))
	}
	text = m.redacted(maskSecrets(text, 0))
	for _, p := range m.patterns {
		text = replace(text, p.match(text), p.mask)
	}
	for _, c := range m.custom {
		text = replace(text, c.re.FindAllStringIndex(text, -1), c.mask)
	}
	return text
}

// redacted returns the redacted text. Redaction knows Secrets by the distance of their kind from
// data, and would take the data of a ConfigMap beside them: it doesn't see their kind. They are
// masked before, while their structure is whole.
func (m *Masker) redacted(text string) string {
	const hidden = "Kqvzmasked"
	if strings.Contains(text, hidden) {
		return m.redact.String(text)
	}
	var b strings.Builder
	at := 0
	for from := 0; ; {
		i := strings.Index(text[from:], secretKind)
		if i < 0 {
			break
		}
		i, from = from+i, from+i+len(secretKind)
		if announces(text, i) {
			b.WriteString(text[at:i])
			b.WriteString(hidden)
			at = from
		}
	}
	if at == 0 {
		return m.redact.String(text)
	}
	b.WriteString(text[at:])
	redacted := strings.ReplaceAll(m.redact.String(b.String()), hidden, secretKind)
	if redacted == text {
		return text
	}
	return maskSecrets(redacted, 0)
}

func maskOf(name string) string { return "[MASKED_" + strings.ToUpper(name) + "]" }

// masks are what masking leaves behind.
var masks = regexp.MustCompile(`\[(?:MASKED_[A-Z][A-Z0-9_]{0,63}|REDACTED(?::[a-z0-9_]{1,64})?)\]|` + regexp.QuoteMeta(Withheld))

// replace replaces matches, in order, by a mask. A match within an earlier mask stays, and one
// that touches a part of a mask takes all of it.
func replace(text string, matches [][]int, mask string) string {
	if len(matches) == 0 {
		return text
	}
	earlier := masks.FindAllStringIndex(text, -1)
	var edits []edit
	for _, match := range matches {
		from, to := match[0], match[1]
		for len(earlier) > 0 && earlier[0][1] <= from {
			earlier = earlier[1:]
		}
		inside := false
		for _, e := range earlier {
			if e[0] >= to {
				break
			}
			if e[0] <= from && to <= e[1] {
				inside = true
				break
			}
			from, to = min(from, e[0]), max(to, e[1])
		}
		if !inside {
			edits = append(edits, edit{from: from, to: to, text: mask})
		}
	}
	return apply(text, edits)
}

// edit replaces the bytes from..to by a text.
type edit struct {
	from, to int
	text     string
}

// apply applies edits. Of overlapping ones the first decides the text, and all are replaced.
func apply(text string, edits []edit) string {
	if len(edits) == 0 {
		return text
	}
	slices.SortFunc(edits, func(a, b edit) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	var b strings.Builder
	at := 0
	for i := 0; i < len(edits); {
		e := edits[i]
		for i++; i < len(edits) && edits[i].from < e.to; i++ {
			if edits[i].to > e.to {
				e.to = edits[i].to
			}
			if edits[i].text == Withheld {
				e.text = Withheld
			}
		}
		b.WriteString(text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(text[at:])
	return b.String()
}
