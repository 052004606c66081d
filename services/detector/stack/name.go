package stack

import "strings"

// minName is the least length of a meaningful name of JavaScript, in characters: minifiers
// make shorter ones, and others with each build. In minified code names of this length
// count as mangled, too.
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
		return appendNetName(dst, f.function)
	case golang:
		return appendGoName(dst, f.function)
	case ruby:
		return append(dst, blockOf(f.function)...)
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

// receivers are what engines put before the names of plain functions.
var receivers = [...]string{"Object.", "Module.", "Function.", "Window.", "Proxy.", "exports.", "global.", "globalThis.", "self.", "module.exports."}

// bareJS is a name of JavaScript without what an engine put around it.
func bareJS(name string) string {
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

func appendScriptName(dst []byte, name string, mangled bool) []byte {
	name = bareJS(name)
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
		before = "" // its class has lost its name
		if last == "<anonymous>" {
			return dst
		}
	}
	return append(append(dst, before...), last...)
}

// lastPart is where the last part of a name of JavaScript begins.
func lastPart(name string) int {
	i := len(name)
	for i > 0 && name[i-1] != '.' && name[i-1] != '/' {
		i--
	}
	return i
}

// appendClassName takes com.acme.Cart$1.lambda$total$0.
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
		return appendNumbered(appendNumbered(dst, name[:i], "$"), name[end:], "$")
	}
	return appendNumbered(dst, name, "$")
}

// appendNumbered appends a name without the numbers that stand behind one of some
// marks.
func appendNumbered(dst []byte, name, marks string) []byte {
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

// appendNetName takes Acme.Cart.<>c__DisplayClass3_0.<Total>b__1.
func appendNetName(dst []byte, name string) []byte {
	const closure = "DisplayClass"
	for {
		at := strings.Index(name, closure)
		if at < 0 {
			return appendNumbered(dst, name, netMarks)
		}
		at += len(closure)
		dst = appendNumbered(dst, name[:at], netMarks)
		name = strings.TrimLeft(name[at:], "0123456789")
	}
}

const netMarks = "_|`"

// appendGoName takes example.com/shop/cart.(*Cart).Total.func1.2, or Sum[...].
func appendGoName(dst []byte, name string) []byte {
	for name != "" {
		part := name
		if dot := strings.IndexByte(name[1:], '.'); dot >= 0 {
			part = name[:dot+1]
		}
		name = name[len(part):]
		switch bare := strings.TrimPrefix(part, "."); {
		case len(bare) < len(part) && numbered(bare, ""), numbered(bare, "func"), numbered(bare, "gowrap"), numbered(bare, "deferwrap"):
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

func numbered(text, word string) bool {
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

// blockOf takes block (2 levels) in Cart#total.
func blockOf(name string) string {
	for {
		before, rest, ok := strings.Cut(name, " in ")
		if !ok || !begins(before, blocks[:]) {
			break
		}
		name = rest
	}
	switch name {
	case "<main>", "<top (required)>":
		return ""
	}
	// Rails compiles a view to _app_views_cart_html_erb___123_456, with numbers of the
	// process.
	if bare := strings.TrimRight(name, "_0123456789"); strings.HasPrefix(name[len(bare):], "__") {
		name = bare
	}
	return name
}

// appendRustName takes app::cart::total::{{closure}}::h0123456789abcdef.
func appendRustName(dst []byte, name string) []byte {
	if hash := strings.LastIndex(name, "::h"); hash >= 0 && len(name)-hash == len("::h0123456789abcdef") {
		name = name[:hash]
	}
	for strings.HasSuffix(name, "::{{closure}}") {
		name = name[:len(name)-len("::{{closure}}")]
	}
	return append(dst, name...)
}
