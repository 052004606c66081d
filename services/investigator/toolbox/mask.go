package toolbox

import (
	"strings"
	"unicode/utf8"
)

// withheld stands for text that could not be masked.
const withheld = "[withheld: the text could not be masked]"

// masked returns valid UTF-8 that passed the mask, or withheld.
func masked(mask func(string) string, text string) (result string) {
	if text == "" {
		return ""
	}
	if mask == nil {
		return withheld
	}
	defer func() {
		if recover() != nil {
			result = withheld
		}
	}()
	return valid(mask(valid(text)))
}

func valid(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// cutText returns at most limit bytes of text and cuts no character.
func cutText(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
