package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// arguments reads the arguments of a tool call. The first that is wrong makes
// done fail, with a text that names it and says what is allowed. An argument
// that is missing has its default, and one that is a text or a word also where
// it is empty: models fill in what they don't mean. A null is refused like any
// other wrong type: taken as missing it would replace a setting with its default.
type arguments struct {
	raw map[string]json.RawMessage
	// known are the arguments that were asked for, in order.
	known []string
	err   error
}

func readArguments(data json.RawMessage) *arguments {
	a := &arguments{}
	if len(data) == 0 || string(data) == "null" {
		return a
	}
	if err := json.Unmarshal(data, &a.raw); err != nil {
		a.err = fmt.Errorf("the arguments must be a JSON object")
	}
	return a
}

// done says what is wrong, or that an argument is none of those asked for.
func (a *arguments) done() error {
	if a.err != nil {
		return a.err
	}
	var unknown []string
	for name := range a.raw {
		if !slices.Contains(a.known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("%s is no argument: allowed are %s", sanitize.Cut(sanitize.Visible(unknown[0]), 64), cmp.Or(strings.Join(a.known, ", "), "none"))
	}
	return nil
}

func (a *arguments) fail(name, must string) {
	if a.err == nil {
		a.err = fmt.Errorf("%s must be %s", name, must)
	}
}

// take returns the value of an argument, and nil where it is missing.
func (a *arguments) take(name string) json.RawMessage {
	a.known = append(a.known, name)
	return a.raw[name]
}

// decode decodes the value of an argument, and reports whether it is of the type
// that v points to. A null is of none.
func decode(value json.RawMessage, v any) bool {
	return string(value) != "null" && json.Unmarshal(value, v) == nil
}

// takeText is take for arguments that are texts.
func (a *arguments) takeText(name string) json.RawMessage {
	if value := a.take(name); string(value) != `""` {
		return value
	}
	return nil
}

// text is a plain text of at most limit bytes.
func (a *arguments) text(name string, limit int) string {
	value := a.takeText(name)
	if value == nil {
		return ""
	}
	var text string
	if !decode(value, &text) || len(text) > limit {
		a.fail(name, fmt.Sprintf("a text of at most %d bytes", limit))
	}
	return text
}

// word is one of a few allowed words. Without a fallback it is required.
func (a *arguments) word(name, fallback string, allowed ...string) string {
	value := a.takeText(name)
	if value == nil && fallback != "" {
		return fallback
	}
	var word string
	if value == nil || !decode(value, &word) || !slices.Contains(allowed, word) {
		a.fail(name, "one of "+strings.Join(allowed, ", "))
	}
	return word
}

// hint is a text that is one of a few words, or another one, which the caller
// takes for the default.
func (a *arguments) hint(name string, known ...string) string {
	value := a.takeText(name)
	var word string
	if value != nil && !decode(value, &word) {
		a.fail(name, "one of "+strings.Join(known, ", "))
	}
	return word
}

// words is a list of allowed words.
func (a *arguments) words(name string, fallback []string, allowed ...string) []string {
	value := a.take(name)
	if value == nil {
		return fallback
	}
	var words []string
	bad := !decode(value, &words) || len(words) == 0 || len(words) > len(allowed)
	for _, w := range words {
		bad = bad || !slices.Contains(allowed, w)
	}
	if bad {
		a.fail(name, "a list with at least one of "+strings.Join(allowed, ", "))
		return nil
	}
	return words
}

// list is a list of at most limit texts. One that is empty is none.
func (a *arguments) list(name string, limit int, of string) []string {
	value := a.take(name)
	if value == nil {
		return nil
	}
	var list []string
	if !decode(value, &list) || len(list) > limit {
		a.fail(name, fmt.Sprintf("a list of at most %d %s", limit, of))
		return nil
	}
	return list
}

// whole is a whole number within bounds.
func (a *arguments) whole(name string, fallback, low, high int) int {
	value := a.take(name)
	if value == nil {
		return fallback
	}
	var n float64
	if !decode(value, &n) || n < float64(low) || n > float64(high) {
		a.fail(name, fmt.Sprintf("between %d and %d", low, high))
		return 0
	}
	if n != math.Trunc(n) {
		a.fail(name, fmt.Sprintf("between %d and %d, in whole numbers", low, high))
		return 0
	}
	return int(n)
}

// optional is one of a few allowed words, or empty.
func (a *arguments) optional(name string, allowed ...string) string {
	if value := a.raw[name]; value == nil || string(value) == `""` {
		a.known = append(a.known, name)
		return ""
	}
	return a.word(name, "", allowed...)
}
