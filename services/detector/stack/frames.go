package stack

import "strings"

// at takes what stands behind "at ": a frame of V8, Java or .NET, or the place of
// one of Rust.
func (s *scan) at(rest string) {
	if s.isPending {
		s.isPending = false
		s.pending.file = place(rest)
		s.keep(s.pending)
		return
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "async "), " {") // which opens what else Node knows of the error
	open := strings.IndexByte(rest, '(')
	switch {
	case rest == "":
	case open > 0 && rest[open-1] == ' ': // V8: name (place)
		name, where := strings.TrimPrefix(rest[:open-1], "new "), inner(rest[open+1:])
		if !prose(name, where) {
			s.v8(name, where)
		}
	case open > 0 && !isPlace(rest):
		if !prose(rest[:open], "") {
			s.call(rest, open)
		}
	case place(rest) != rest || strings.HasPrefix(rest, "<"):
		s.v8("", rest)
	case !isPlace(rest) && !isDigit(rest[0]) && !prose(rest, ""): // a name alone, as decoders of other formats write it
		s.keep(frame{function: rest})
	}
}

// prose reports whether the text behind "at " is prose, such as "row 12 (of 40)": a name
// and a place have no spaces, except for a place that ends with its line, and a name
// before one.
func prose(name, where string) bool {
	if place(where) != where || strings.HasPrefix(where, "eval at ") || strings.HasPrefix(where, "<") {
		return false
	}
	if as := strings.Index(name, " [as "); as >= 0 {
		name = name[:as]
	}
	return strings.IndexByte(name, ' ') >= 0 || strings.IndexByte(where, ' ') >= 0
}

// inner is what a parenthesis holds that ends with the line.
func inner(text string) string {
	if end := strings.LastIndexByte(text, ')'); end >= 0 {
		return text[:end]
	}
	return text
}

// v8 takes a frame of V8, or of a decoder that writes like it.
func (s *scan) v8(name, where string) {
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
	file := place(where)
	s.keep(frame{function: name, file: file, language: byFile(file, javaScript)})
}

// call takes a frame of Java or .NET, whose arguments or place follow the name
// without a space.
func (s *scan) call(rest string, open int) {
	name, args := rest[:open], rest[open+1:]
	end := strings.IndexByte(args, ')')
	if end < 0 {
		end = len(args)
	}
	if args := args[:end]; ofJava(args) {
		file := place(args)
		if file == "Native Method" || file == "Unknown Source" || file == "<generated>" {
			file = ""
		}
		s.keep(frame{function: name, file: file, language: java})
		return
	}
	file := ""
	if in := strings.LastIndex(rest, ") in "); in >= 0 {
		file = rest[in+len(") in "):]
		if at := strings.LastIndex(file, ":line "); at >= 0 {
			file = file[:at]
		}
	}
	s.keep(frame{function: name, file: file, language: dotnet})
}

// ofJava reports whether what a parenthesis holds is a place, and no arguments.
func ofJava(args string) bool {
	switch args {
	case "Native Method", "Unknown Source", "<generated>", "SourceFile":
		return true
	}
	file := place(args)
	return byFile(file, unknown) == java || file == "SourceFile"
}

// isPlace reports whether a text is where something is rather than its name.
func isPlace(text string) bool {
	if text[0] == '/' || text[0] == '.' || len(text) > 2 && text[1] == ':' && text[2] == '\\' {
		return true
	}
	if scheme := strings.IndexByte(text, ':'); scheme > 0 && isScheme(text[:scheme]) {
		return true // https://..., node:internal/..., file:///...
	}
	return text == "native" || place(text) != text
}

func isScheme(text string) bool {
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && (i == 0 || c != '-' && c != '+' && !isDigit(c)) {
			return false
		}
	}
	return true
}

// place is a file without its line and column.
func place(text string) string {
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

// phpFrame takes #0 /src/Cart.php(12): Cart->total(). The place is that of the call:
// where the function itself was is with the frame before, and for the first with
// the exception.
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
	s.keep(frame{function: call, file: file, language: php})
	return true
}

// thrownAt notes where PHP reports whether an exception was thrown: ... in /src/Cart.php:12.
func (s *scan) thrownAt(line string) {
	if in := strings.LastIndex(line, " in "); in >= 0 && s.thrownIn == "" {
		if file := place(line[in+len(" in "):]); strings.HasSuffix(file, ".php") {
			s.thrownIn = file
		}
	}
}

// rustFrame takes 12: app::cart::total, whose place follows on the next line.
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
	if name == "" || !s.rust && !strings.Contains(name, "::") {
		return false
	}
	s.rust = true
	s.pending, s.isPending = frame{function: name, language: rust}, true
	return true
}

// pythonFrame takes File "/src/cart.py", line 12, in total. Those of a group of
// exceptions stand behind a bar.
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
	s.keep(frame{function: name, file: file, language: python})
	return true
}

// pythonEnd takes the line behind Python's frames, which names the exception.
func (s *scan) pythonEnd(line string) {
	s.afterPython = false
	if kind := typeOf(line, true); kind != "" {
		s.kind, s.words = kind, line
	}
}

// goFrame takes a place of Go, whose function was on the line before.
func (s *scan) goFrame(line string) bool {
	at := strings.Index(line, ".go:")
	if at < 0 || at+4 == len(line) || !isDigit(line[at+4]) {
		return false
	}
	name := s.before
	if strings.HasPrefix(name, "created by ") || name == "" {
		return true
	}
	if name[len(name)-1] == ')' { // main.(*Cart).Total(0xc000012345, ...)
		if open := strings.LastIndexByte(name, '('); open > 0 {
			name = name[:open]
		}
	}
	s.goOn = true
	if name == "panic" { // what ran until then was who caught it
		s.kept, s.any = 0, true
		return true
	}
	s.keep(frame{function: name, file: line[:at+3], language: golang})
	return true
}

// rubyFrame takes /src/cart.rb:12:in `total', also with an error behind it.
func (s *scan) rubyFrame(line string) bool {
	in := strings.Index(line, ":in ")
	if in < 0 || in+4 == len(line) || line[in+4] != '`' && line[in+4] != '\'' {
		return false
	}
	name, rest := line[in+5:], ""
	if end := strings.IndexByte(name, '\''); end >= 0 {
		name, rest = name[:end], name[end+1:]
	}
	file := place(strings.TrimPrefix(line[:in], "from "))
	if rest != "" && !s.any && s.kind == "" { // : undefined method `x' for nil (NoMethodError)
		if open := strings.LastIndexByte(rest, '('); open >= 0 && rest[len(rest)-1] == ')' && isName(rest[open+1:len(rest)-1]) {
			s.kind, s.words = rest[open+1:len(rest)-1], rest
		}
	}
	s.keep(frame{function: name, file: file, language: ruby})
	return true
}

// geckoFrame takes total@https://shop.example/cart.js:12:5, as Firefox and Safari
// write it.
func (s *scan) geckoFrame(line string) bool {
	at := strings.IndexByte(line, '@')
	if at < 0 || at+1 == len(line) {
		return false
	}
	name, where := line[:at], line[at+1:]
	if eval := strings.Index(where, " line "); eval >= 0 { // app.js line 10 > eval:1:1
		name, where = "", where[:eval]
	} else if where != "[native code]" && (place(where) == where || strings.IndexByte(where, ' ') >= 0 || where[0] != '/' && !strings.Contains(where, ":/")) {
		return false
	}
	if star := strings.LastIndexByte(name, '*'); star >= 0 { // async*, promise callback*
		name = name[star+1:]
	}
	if strings.IndexByte(name, ' ') >= 0 { // global code
		name = ""
	}
	file := place(where)
	s.keep(frame{function: name, file: file, language: byFile(file, javaScript)})
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
