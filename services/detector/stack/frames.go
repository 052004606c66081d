package stack

import "strings"

// atFrame reads the text behind "at ": a frame of V8, Java or .NET, or the location of a
// pending frame of Rust.
func (s *scan) atFrame(rest string) {
	if s.isPending {
		s.isPending = false
		s.pending.file = trimPosition(rest)
		s.addFrame(s.pending)
		return
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "async "), " {") // Node prints the fields of the error in braces
	open := strings.IndexByte(rest, '(')
	switch {
	case rest == "":
	case open > 0 && rest[open-1] == ' ': // V8: name (location)
		name, where := strings.TrimPrefix(rest[:open-1], "new "), insideParens(rest[open+1:])
		if !isProse(name, where) {
			s.v8Frame(name, where)
		}
	case open > 0 && !isLocation(rest):
		if !isProse(rest[:open], "") {
			s.callFrame(rest, open)
		}
	case trimPosition(rest) != rest || strings.HasPrefix(rest, "<"):
		s.v8Frame("", rest)
	case !isLocation(rest) && !isDigit(rest[0]) && !isProse(rest, ""): // only a name, as decoders of other formats write it
		s.addFrame(frame{function: rest})
	}
}

// isProse reports whether the text behind "at " is not a frame, as in "row 12 (of 40)": it has
// a space in the name or in the location, and the location has no line.
func isProse(name, where string) bool {
	if trimPosition(where) != where || strings.HasPrefix(where, "eval at ") || strings.HasPrefix(where, "<") {
		return false
	}
	if as := strings.Index(name, " [as "); as >= 0 {
		name = name[:as]
	}
	return strings.IndexByte(name, ' ') >= 0 || strings.IndexByte(where, ' ') >= 0
}

// insideParens returns the text before the last closing parenthesis.
func insideParens(text string) string {
	if end := strings.LastIndexByte(text, ')'); end >= 0 {
		return text[:end]
	}
	return text
}

// v8Frame reads a frame of V8, or of a decoder that writes the same format.
func (s *scan) v8Frame(name, where string) {
	if as := strings.Index(name, " [as "); as >= 0 {
		name = name[:as]
	}
	if strings.HasPrefix(where, "eval at ") { // eval at f (https://...:1:2), <anonymous>:3:4
		name = ""
		if open := strings.LastIndexByte(where, '('); open >= 0 {
			where, _, _ = strings.Cut(where[open+1:], ")")
		}
	}
	where = strings.TrimPrefix(where, "address at ") // Hermes
	file := trimPosition(where)
	s.addFrame(frame{function: name, file: file, language: languageOf(file, javaScript)})
}

// callFrame reads a frame of Java or .NET, whose location or arguments follow the name without
// a space.
func (s *scan) callFrame(rest string, open int) {
	name, args := rest[:open], rest[open+1:]
	end := strings.IndexByte(args, ')')
	if end < 0 {
		end = len(args)
	}
	if args := args[:end]; isJavaLocation(args) {
		file := trimPosition(args)
		if file == "Native Method" || file == "Unknown Source" || file == "<generated>" {
			file = ""
		}
		s.addFrame(frame{function: name, file: file, language: java})
		return
	}
	file := ""
	if in := strings.LastIndex(rest, ") in "); in >= 0 {
		file = rest[in+len(") in "):]
		if at := strings.LastIndex(file, ":line "); at >= 0 {
			file = file[:at]
		}
	}
	s.addFrame(frame{function: name, file: file, language: dotnet})
}

// isJavaLocation reports whether the text in parentheses is a location of Java, and not a list
// of arguments.
func isJavaLocation(args string) bool {
	switch args {
	case "Native Method", "Unknown Source", "<generated>", "SourceFile":
		return true
	}
	file := trimPosition(args)
	return languageOf(file, unknown) == java || file == "SourceFile"
}

// isLocation reports whether a text is a location rather than a name.
func isLocation(text string) bool {
	if text[0] == '/' || text[0] == '.' || len(text) > 2 && text[1] == ':' && text[2] == '\\' {
		return true
	}
	if scheme := strings.IndexByte(text, ':'); scheme > 0 && isScheme(text[:scheme]) {
		return true // https://..., node:internal/..., file:///...
	}
	return text == "native" || trimPosition(text) != text
}

func isScheme(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && (i == 0 || c != '-' && c != '+' && !isDigit(c)) {
			return false
		}
	}
	return true
}

// trimPosition removes line and column from the end of a location.
func trimPosition(text string) string {
	for range 2 {
		end := len(text)
		for end > 0 && isDigit(text[end-1]) {
			end--
		}
		if end == len(text) || end < 2 || text[end-1] != ':' {
			break
		}
		text = text[:end-1]
	}
	return text
}

// phpFrame reads #0 /src/Cart.php(12): Cart->total(). The location is that of the call. The
// file of the function itself is in the previous frame, and for the first frame in the line
// of the exception.
func (s *scan) phpFrame(line string) bool {
	n := 1
	for n < len(line) && isDigit(line[n]) {
		n++
	}
	if n == 1 || n+1 >= len(line) || line[n] != ' ' {
		return false
	}
	first, rest := line[1:n] == "0", line[n+1:]
	if rest == "{main}" {
		return true
	}
	where, call, ok := strings.Cut(rest, ": ")
	if !ok || where == "" || where[len(where)-1] != ')' && where[len(where)-1] != ']' {
		return false
	}
	if open := strings.LastIndexByte(where, '('); open > 0 {
		where = where[:open]
	}
	if end := strings.IndexByte(call, '('); end > 0 {
		call = call[:end]
	}
	if first && s.thrownIn == "" {
		s.thrownIn = where
	}
	file := s.thrownIn
	s.thrownIn = where
	s.addFrame(frame{function: call, file: file, language: php})
	return true
}

// recordThrownIn records the file in which PHP threw an exception: ... in /src/Cart.php:12.
func (s *scan) recordThrownIn(line string) {
	if in := strings.LastIndex(line, " in "); in >= 0 && s.thrownIn == "" {
		if file := trimPosition(line[in+len(" in "):]); strings.HasSuffix(file, ".php") {
			s.thrownIn = file
		}
	}
}

// rustFrame reads 12: app::cart::total, whose location is on the next line.
func (s *scan) rustFrame(line string) bool {
	n := 0
	for n < len(line) && isDigit(line[n]) {
		n++
	}
	if n > 4 || !strings.HasPrefix(line[n:], ": ") {
		return false
	}
	name := strings.TrimLeft(line[n+2:], " ")
	if strings.HasPrefix(name, "0x") { // with its address
		_, name, _ = strings.Cut(name, " - ")
	}
	if name == "" || !s.isRust && !strings.Contains(name, "::") {
		return false
	}
	s.isRust = true
	s.pending, s.isPending = frame{function: name, language: rust}, true
	return true
}

// pythonFrame reads File "/src/cart.py", line 12, in total. In a group of exceptions, frames
// are behind a bar.
func (s *scan) pythonFrame(line string) bool {
	if line[0] != 'F' {
		line = strings.TrimLeft(line, "|+- ")
	}
	if !strings.HasPrefix(line, `File "`) {
		return false
	}
	file, rest, ok := strings.Cut(line[len(`File "`):], `"`)
	if !ok || !strings.HasPrefix(rest, ", line ") {
		return false
	}
	_, name, _ := strings.Cut(rest, ", in ")
	s.outermostFirst, s.afterPython = true, true
	s.addFrame(frame{function: name, file: file, language: python})
	return true
}

// pythonType reads the line behind Python's frames, which names the exception.
func (s *scan) pythonType(line string) {
	s.afterPython = false
	if errorType := parseType(line, true); errorType != "" {
		s.errorType, s.headline = errorType, line
	}
}

// goFrame reads a location of Go, whose function is on the previous line.
func (s *scan) goFrame(line string) bool {
	at := strings.Index(line, ".go:")
	if at < 0 || at+4 == len(line) || !isDigit(line[at+4]) {
		return false
	}
	name := s.previous
	if strings.HasPrefix(name, "created by ") || name == "" {
		return true
	}
	if name[len(name)-1] == ')' { // main.(*Cart).Total(0xc000012345, ...)
		if open := strings.LastIndexByte(name, '('); open > 0 {
			name = name[:open]
		}
	}
	s.isGo = true
	if name == "panic" { // the frames above it belong to deferred functions
		s.numFrames, s.foundFrame = 0, true
		return true
	}
	s.addFrame(frame{function: name, file: line[:at+3], language: golang})
	return true
}

// rubyFrame reads /src/cart.rb:12:in `total', also with an error behind it.
func (s *scan) rubyFrame(line string) bool {
	in := strings.Index(line, ":in ")
	if in < 0 || in+4 == len(line) || line[in+4] != '`' && line[in+4] != '\'' {
		return false
	}
	name, rest := line[in+5:], ""
	if end := strings.IndexByte(name, '\''); end >= 0 {
		name, rest = name[:end], name[end+1:]
	}
	file := trimPosition(strings.TrimPrefix(line[:in], "from "))
	if rest != "" && !s.foundFrame && s.errorType == "" { // : undefined method `x' for nil (NoMethodError)
		if open := strings.LastIndexByte(rest, '('); open >= 0 && rest[len(rest)-1] == ')' && isName(rest[open+1:len(rest)-1]) {
			s.errorType, s.headline = rest[open+1:len(rest)-1], rest
		}
	}
	s.addFrame(frame{function: name, file: file, language: ruby})
	return true
}

// geckoFrame reads total@https://shop.example/cart.js:12:5, as Firefox and Safari write it.
func (s *scan) geckoFrame(line string) bool {
	at := strings.IndexByte(line, '@')
	if at < 0 || at+1 == len(line) {
		return false
	}
	name, where := line[:at], line[at+1:]
	if eval := strings.Index(where, " line "); eval >= 0 { // app.js line 10 > eval:1:1
		name, where = "", where[:eval]
	} else if where != "[native code]" && (trimPosition(where) == where || strings.IndexByte(where, ' ') >= 0 || where[0] != '/' && !strings.Contains(where, ":/")) {
		return false
	}
	if star := strings.LastIndexByte(name, '*'); star >= 0 { // async*, promise callback*
		name = name[star+1:]
	}
	if strings.IndexByte(name, ' ') >= 0 { // global code
		name = ""
	}
	file := trimPosition(where)
	s.addFrame(frame{function: name, file: file, language: languageOf(file, javaScript)})
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
