package stack

import "strings"

// minName is the length of the shortest meaningful name in JavaScript, in characters.
// Minifiers generate shorter names, and different ones in each build. In minified code, names
// of this length count as mangled, too.
const minName = 3

// appendName appends the name of a frame's function without what differs between builds,
// such as the numbers of closures and lambdas. It appends nothing if the name is not
// meaningful.
func appendName(dst []byte, f *frame, mangled bool) []byte {
	switch f.language {
	case javaScript:
		return appendScriptName(dst, f.function, mangled)
	case java:
		return appendClassName(dst, withoutModule(f.function))
	case dotnet:
		return appendDotnetName(dst, f.function)
	case golang:
		return appendGoName(dst, f.function)
	case ruby:
		return append(dst, trimRubyBlock(f.function)...)
	case rust:
		return appendRustName(dst, f.function)
	case php:
		if i := strings.Index(f.function, "{closure"); i >= 0 {
			return append(append(dst, f.function[:i]...), "{closure}"...)
		}
		return append(dst, f.function...)
	default:
		switch f.function {
		case "<anonymous>", "<unknown>", "?":
			return dst
		}
		return append(dst, f.function...)
	}
}

// receivers are what engines write before the names of plain functions.
var receivers = [...]string{"Object.", "Module.", "Function.", "Window.", "Proxy.", "exports.", "global.", "globalThis.", "self.", "module.exports."}

// trimScriptName returns a name of JavaScript without what an engine adds to it.
func trimScriptName(name string) string {
	name = strings.TrimPrefix(name, "async ")
	if strings.IndexByte(name, '.') >= 0 {
		for _, receiver := range receivers {
			name = strings.TrimPrefix(name, receiver)
		}
	}
	for strings.HasSuffix(name, "/<") { // a function in a function, as Firefox names it
		name = name[:len(name)-2]
	}
	name = strings.TrimSuffix(name, "<")
	switch name {
	case "<anonymous>", "anonymous", "(anonymous)", "?", "eval", "<computed>", "<unknown>", "null":
		return ""
	}
	return name
}

// appendScriptName appends the name of a JavaScript function, unless it is mangled.
func appendScriptName(dst []byte, name string, mangled bool) []byte {
	name = trimScriptName(name)
	last := name[lastPart(name):]
	shortest := minName
	if mangled {
		shortest++
	}
	if len(last) < shortest {
		return dst
	}
	before := name[:len(name)-len(last)]
	if of := strings.TrimRight(before, "./"); len(of)-lastPart(of) < shortest {
		before = "" // the name of its class is mangled
		if last == "<anonymous>" {
			return dst
		}
	}
	return append(append(dst, before...), last...)
}

// lastPart returns the begin of the last part of a name of JavaScript.
func lastPart(name string) int {
	i := len(name)
	for i > 0 && name[i-1] != '.' && name[i-1] != '/' {
		i--
	}
	return i
}

// appendClassName appends a name such as com.acme.Cart$1.lambda$total$0.
func appendClassName(dst []byte, name string) []byte {
	dot := max(strings.LastIndexByte(name, '.'), 0)
	if class := lastName(name[:dot]); len(name)-dot-1 < minName && len(class) < minName {
		return dst // obfuscated
	}
	if i := strings.Index(name, "__"); i > 0 && i+2 < len(name) && isDigit(name[i+2]) { // of Clojure: core$total$fn__1234.invoke
		end := i + 2
		for end < len(name) && isDigit(name[end]) {
			end++
		}
		return appendWithoutNumbers(appendWithoutNumbers(dst, name[:i], "$"), name[end:], "$")
	}
	return appendWithoutNumbers(dst, name, "$")
}

// appendWithoutNumbers appends a name without the numbers behind marks.
func appendWithoutNumbers(dst []byte, name, marks string) []byte {
	for i := 0; i < len(name); i++ {
		c := name[i]
		dst = append(dst, c)
		if strings.IndexByte(marks, c) >= 0 {
			for i+1 < len(name) && isDigit(name[i+1]) {
				i++
			}
		}
	}
	return dst
}

// appendDotnetName appends a name such as Acme.Cart.<>c__DisplayClass3_0.<Total>b__1.
func appendDotnetName(dst []byte, name string) []byte {
	const closure = "DisplayClass"
	for {
		at := strings.Index(name, closure)
		if at < 0 {
			return appendWithoutNumbers(dst, name, dotnetMarks)
		}
		at += len(closure)
		dst = appendWithoutNumbers(dst, name[:at], dotnetMarks)
		name = strings.TrimLeft(name[at:], "0123456789")
	}
}

const dotnetMarks = "_|`"

// appendGoName appends a name such as example.com/shop/cart.(*Cart).Total.func1.2, or Sum[...].
func appendGoName(dst []byte, name string) []byte {
	for name != "" {
		part := name
		if dot := strings.IndexByte(name[1:], '.'); dot >= 0 {
			part = name[:dot+1]
		}
		name = name[len(part):]
		switch bare := strings.TrimPrefix(part, "."); {
		case len(bare) < len(part) && isNumbered(bare, ""), isNumbered(bare, "func"), isNumbered(bare, "gowrap"), isNumbered(bare, "deferwrap"):
			continue
		}
		if generic := strings.Index(part, "["); generic > 0 { // [...], or the dots in it
			part = part[:generic]
		} else if generic == 0 || strings.Trim(part, ".]") == "" {
			continue
		}
		dst = append(dst, part...)
	}
	return dst
}

func isNumbered(text, word string) bool {
	rest, ok := strings.CutPrefix(text, word)
	if !ok || rest == "" {
		return false
	}
	for i := range len(rest) {
		if !isDigit(rest[i]) && !(i > 0 && rest[i] == '-') {
			return false
		}
	}
	return true
}

var blocks = [...]string{"block", "rescue", "ensure"}

// trimRubyBlock returns Cart#total for block (2 levels) in Cart#total.
func trimRubyBlock(name string) string {
	for {
		before, rest, ok := strings.Cut(name, " in ")
		if !ok || !hasAnyPrefix(before, blocks[:]) {
			break
		}
		name = rest
	}
	switch name {
	case "<main>", "<top (required)>":
		return ""
	}
	// Rails compiles a view to _app_views_cart_html_erb___123_456. The numbers differ in
	// each process.
	if bare := strings.TrimRight(name, "_0123456789"); strings.HasPrefix(name[len(bare):], "__") {
		name = bare
	}
	return name
}

// appendRustName appends a name such as app::cart::total::{{closure}}::h0123456789abcdef.
func appendRustName(dst []byte, name string) []byte {
	if hash := strings.LastIndex(name, "::h"); hash >= 0 && len(name)-hash == len("::h0123456789abcdef") {
		name = name[:hash]
	}
	for strings.HasSuffix(name, "::{{closure}}") {
		name = name[:len(name)-len("::{{closure}}")]
	}
	return append(dst, name...)
}
