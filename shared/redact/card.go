package redact

const (
	shortestCard = 13
	longestCard  = 19
)

// card matches a payment card number: 13 to 19 digits, alone or in groups with
// single spaces or dashes, of a length that its issuer has, that pass Luhn.
func card(c cursor) hit {
	if !cardStart(c.text, c.at) {
		return hit{}
	}
	var digits [longestCard]byte
	var sep byte
	n, to := 0, 0
	for i := c.at; i < len(c.text); i++ {
		b := c.text[i]
		if is(b, classDigit) {
			if n == longestCard {
				break
			}
			digits[n] = b - '0'
			n++
			if cardEnd(c.text, i+1) && plausibleCard(digits[:n]) {
				to = i + 1
			}
			continue
		}
		if b != ' ' && b != '-' || sep != 0 && b != sep || !is(byteAt(c.text, i-1), classDigit) {
			break
		}
		sep = b
	}
	if to == 0 {
		return hit{}
	}
	return hit{from: c.at, to: to, text: c.mask}
}

// cardStart says that a number may begin at i: not within a word, a longer
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

func plausibleCard(d []byte) bool {
	return len(d) >= shortestCard && issued(d) && luhn(d)
}

// issued says that an issuer makes cards of this length with these digits.
func issued(d []byte) bool {
	n := len(d)
	two := int(d[0])*10 + int(d[1])
	four := two*100 + int(d[2])*10 + int(d[3])
	switch {
	case d[0] == 4:
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720:
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
