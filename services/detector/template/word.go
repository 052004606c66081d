package template

// word reads a run of letters and digits, and the rest of a number, date or address that it
// begins.
func (s *scanner) word() {
	rest := s.in[s.pos:]
	if n := leading(rest, isLetter); (n < letterHex || kinds[rest[0]]&isHex == 0) &&
		(n == len(rest) || n > 0 && kinds[rest[n]]&isDigit == 0 && !joins(rest[n])) {
		s.put(rest[:n], n) // most words
		return
	}
	w := measure(rest)
	if n, as := special(rest, w); n > 0 {
		s.put(as, n)
		return
	}
	run := rest[:w.len]
	switch {
	case !w.digits && !(w.hex && w.len >= letterHex):
		s.put(run, w.len)
	case w.len >= longID:
		s.put(id, w.len)
	case !w.letters:
		s.put(number, w.len)
		s.moreNumber()
	case w.hex && w.len >= minHex, w.changes > 1, hasPrefixAt(run, 0, "0x"):
		s.put(number, w.len)
	case kinds[run[0]]&isDigit != 0: // 35ms
		s.put(number, leading(run, isDigit))
	default: // user42
		letters := leading(run, isWord&^isDigit)
		s.put(run[:letters], letters)
		s.put(number, w.len-letters)
	}
}

// moreNumber skips the rest of a number after its first digits: decimals, further dotted
// parts, thousands.
func (s *scanner) moreNumber() {
	for s.pos < len(s.in) {
		n := 0
		switch s.in[s.pos] {
		case '.':
			n = leading(s.in[s.pos+1:], isDigit)
		case ',':
			if n = leading(s.in[s.pos+1:], isWord); n != 3 || leading(s.in[s.pos+1:], isDigit) != 3 {
				return
			}
		}
		if n == 0 {
			return
		}
		s.pos += 1 + n
	}
}

// special returns the length of a UUID, date or address at the beginning of in, whose first
// run is w, and its placeholder.
func special(in string, w run) (length int, as string) {
	if w.len == len(in) {
		return 0, ""
	}
	switch next := in[w.len]; {
	case next == '-' && w.len == 8 && w.hex:
		return uuid(in), id
	case (next == '-' || next == '/') && w.len == 4 && !w.letters:
		return date(in), moment
	case next == '.' && w.len <= 3 && !w.letters:
		return ipv4(in), address
	case next == ':' && w.len == 2 && w.hex:
		if n := mac(in); n > 0 {
			return n, id
		}
		return ipv6(in), address
	case next == ':' && w.len <= 4 && w.hex:
		return ipv6(in), address
	}
	return 0, ""
}

// joins reports whether c can follow the first group of a UUID or an address, if that group
// has letters only.
func joins(c byte) bool { return c == '-' || c == ':' }

func uuid(in string) int { return shape(in, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh") }

func mac(in string) int { return shape(in, "hh:hh:hh:hh:hh:hh") }

// date returns the length of a date, 2026-01-28 or 2026/01/28, with the time of day and the
// zone if there are any.
func date(in string) int {
	n := max(prefix(in, "dddd-dd-dd"), prefix(in, "dddd/dd/dd"))
	if n == 0 {
		return 0
	}
	clock := max(prefix(in[n:], "Tdd:dd"), prefix(in[n:], " dd:dd"), prefix(in[n:], "tdd:dd"))
	if clock == 0 {
		return ended(in, n)
	}
	n += clock
	n += prefix(in[n:], ":dd")
	if fraction := prefix(in[n:], ".d") + prefix(in[n:], ",d"); fraction > 0 {
		n += 1 + leading(in[n+1:], isDigit)
	}
	zones := [...]string{"Z", "z", "+dd:dd", "-dd:dd", "+dddd", "-dddd"}
	for _, zone := range zones {
		if z := prefix(in[n:], zone); z > 0 {
			n += z
			break
		}
	}
	return ended(in, n)
}

func ipv4(in string) int {
	n := 0
	for part := range 4 {
		if part > 0 {
			if n == len(in) || in[n] != '.' {
				return 0
			}
			n++
		}
		digits := leading(in[n:], isDigit)
		if digits < 1 || digits > 3 {
			return 0
		}
		n += digits
	}
	if n+1 < len(in) && in[n] == '.' && kinds[in[n+1]]&isDigit != 0 {
		return 0 // five parts are a version
	}
	return ended(in, n)
}

// ipv6 returns the length of eight groups, or of fewer with one ::, if there is a digit.
func ipv6(in string) int {
	n, groups, gaps, digits := 0, 0, 0, false
	for n < len(in) {
		if in[n] == ':' {
			n++
			if n < len(in) && in[n] == ':' {
				gaps++
				n++
			}
			continue
		}
		g := leading(in[n:], isHex)
		if g == 0 {
			break
		}
		if g > 4 {
			return 0
		}
		for _, c := range []byte(in[n : n+g]) {
			digits = digits || kinds[c]&isDigit != 0
		}
		if groups++; groups > 8 {
			return 0 // this also bounds the time for a long row of groups
		}
		n += g
	}
	if !digits || gaps > 1 || gaps == 0 && groups != 8 || gaps == 1 && groups > 7 {
		return 0
	}
	return ended(in, n)
}

// shape is prefix for a form that no word may continue.
func shape(in, form string) int {
	if n := prefix(in, form); n > 0 {
		return ended(in, n)
	}
	return 0
}

// prefix returns the length of form if in begins with it, or 0. In form, d is a digit and
// h a hex digit.
func prefix(in, form string) int {
	if len(in) < len(form) {
		return 0
	}
	for i := range len(form) {
		switch c := form[i]; {
		case c == 'd' && kinds[in[i]]&isDigit != 0:
		case c == 'h' && kinds[in[i]]&isHex != 0:
		case c != 'd' && c != 'h' && c == in[i]:
		default:
			return 0
		}
	}
	return len(form)
}

// ended returns n if no word continues there, or 0.
func ended(in string, n int) int {
	if n < len(in) && kinds[in[n]]&isWord != 0 {
		return 0
	}
	return n
}
