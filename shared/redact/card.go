package redact

import "strings"

const (
	shortestCard = 13
	longestCard  = 19
	// longestPhone is how many digits a telephone number has at most (E.164).
	longestPhone = 15
)

// card matches a payment card number: 13 to 19 digits, in one piece or in the groups that cards
// have, of a length of its issuer, with a valid Luhn check digit.
func card(c cursor) hit {
	if !cardStart(c.text, c.pos) {
		return hit{}
	}
	var digits [longestCard]byte
	var sep byte
	least := shortestCard
	if byteAt(c.text, c.pos-1) == '+' {
		least = longestPhone + 1
	}
	n, group, to := 0, 0, 0
	for i := c.pos; i < len(c.text); i++ {
		b := c.text[i]
		if is(b, classDigit) {
			if n == longestCard {
				break
			}
			digits[n] = b - '0'
			n++
			group++
			if n >= least && cardEnd(c.text, i+1) && plausibleCard(digits[:n]) {
				to = i + 1
			}
			continue
		}
		if strings.IndexByte(" -+.", b) < 0 || sep != 0 && b != sep || !printed(group, n) {
			break
		}
		sep, group = b, 0
	}
	if to == 0 {
		return hit{}
	}
	quote := ""
	if sep == 0 {
		quote = jsonNumberQuote(c.text, c.pos)
	}
	return hit{from: c.pos, to: to, text: quote + c.mask + quote}
}

// printed reports whether cards have a gap after a group of that many digits that ends with the
// n-th digit: 4 4 4 4, 4 6 5 and 4 6 4.
func printed(group, n int) bool {
	return group == 4 && n%4 == 0 || group == 6 && n == 10
}

// cardStart reports whether a number may begin at i: not within a word, a longer
// number or a fraction.
func cardStart(s string, i int) bool {
	if !wordStart(s, i) {
		return false
	}
	return byteAt(s, i-1) != '.' || !is(byteAt(s, i-2), classDigit)
}

func cardEnd(s string, i int) bool {
	next := byteAt(s, i)
	return !isAlnum(next) && (next != '.' || !is(byteAt(s, i+1), classDigit))
}

// jsonNumberQuote returns the quote that a mask needs in place of a JSON number at i, so that the
// JSON stays valid: that of the member's name. It returns none for a number in prose, and in an
// array with text.
func jsonNumberQuote(s string, i int) string {
	const far = 256
	from := max(0, i-far)
	if i = lastNotSpace(s, i); strings.IndexByte(":[,", byteAt(s, i-1)) < 0 {
		return ""
	}
	for i > from && (is(s[i-1], classDigit|classSpace) || strings.IndexByte(",.[]-+eE", s[i-1]) >= 0) {
		i--
	}
	if i == 0 && s[0] == '[' {
		return `"`
	}
	if byteAt(s, i-1) != ':' {
		return ""
	}
	end := lastNotSpace(s, i-1)
	if byteAt(s, end-1) != '"' {
		return ""
	}
	start := end - 1
	for start > 0 && end-start <= maxQuote && s[start-1] == '\\' {
		start--
	}
	return s[start:end]
}

// lastNotSpace returns where the white space before i begins, at most 64 bytes back.
func lastNotSpace(s string, i int) int {
	const far = 64
	for from := i - far; i > 0 && i > from && is(s[i-1], classSpace); {
		i--
	}
	return i
}

func plausibleCard(d []byte) bool {
	return issued(d) && luhn(d)
}

// issued reports whether an issuer has cards of this length with these digits.
func issued(d []byte) bool {
	n := len(d)
	two := int(d[0])*10 + int(d[1])
	four := two*100 + int(d[2])*10 + int(d[3])
	switch {
	case d[0] == 4:
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720, four >= 2200 && four <= 2204:
		return n == 16
	case two == 34, two == 37:
		return n == 15
	case two == 36, two == 38, two == 39, four >= 3000 && four <= 3059:
		return n == 14 || n == 16
	case two == 35:
		return n == 16
	case two == 50, two >= 56 && two <= 58, d[0] == 6:
		return n == 16 || n >= 18
	default:
		return false
	}
}

func luhn(d []byte) bool {
	sum := 0
	for i, v := range d {
		x := int(v)
		if (len(d)-i)%2 == 0 {
			if x *= 2; x > 9 {
				x -= 9
			}
		}
		sum += x
	}
	return sum%10 == 0
}
