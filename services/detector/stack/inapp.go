package stack

import "strings"

// byFile is the language of a file by its name, or another one where that says
// nothing.
func byFile(file string, other language) language {
	dot := strings.LastIndexByte(file, '.')
	if dot < 0 {
		return other
	}
	switch file[dot+1:] {
	case "js", "mjs", "cjs", "jsx", "ts", "tsx", "mts", "vue", "svelte":
		return javaScript
	case "py":
		return python
	case "go":
		return golang
	case "java", "kt", "kts", "scala", "groovy", "clj":
		return java
	case "cs", "fs", "vb", "cshtml", "razor":
		return dotnet
	case "rb", "erb", "rake":
		return ruby
	case "php":
		return php
	case "rs":
		return rust
	default:
		return other
	}
}

// inApp reports whether a frame is of the app's own code: all that is not known to be of
// others.
func inApp(f *frame) bool {
	switch f.language {
	case javaScript:
		return appScript(f.file)
	case python:
		return !holds(f.file, pythons[:]) && !strings.HasPrefix(f.file, "<") && !ofStdlib(f.file)
	case golang:
		return !holds(f.file, goModules[:]) && !goStandard(f)
	case java:
		return appClass(f.function)
	case dotnet:
		return !begins(f.function, dotnets[:])
	case unknown: // where there is no file, or none of a language
		return !begins(f.function, dotnets[:]) && !begins(f.function, rusts[:]) && !holds(f.file, vendored[:])
	case ruby:
		return !holds(f.file, rubies[:]) && !strings.HasPrefix(f.file, "<internal:") && !strings.HasPrefix(f.file, "(eval")
	case php:
		return f.file != "[internal function]" && !strings.Contains(f.file, "/vendor/")
	default:
		return !holds(f.file, crates[:]) && !begins(strings.TrimLeft(f.function, "<&"), rusts[:])
	}
}

// Where the code of others lies.
var (
	vendored  = [...]string{"node_modules", "/vendor/", "site-packages", "/.cargo/"}
	scripts   = [...]string{"node_modules", "vendor", "webpack", "@vite", "bower_components", "~"} // segments of a path
	pythons   = [...]string{"site-packages", "dist-packages", "/vendor/", "\\Lib\\", "\\lib\\"}
	goModules = [...]string{"@v", "/vendor/"}
	rubies    = [...]string{"/gems/", "/lib/ruby/", "/rubygems/", "/bundler/", "/bin/bundle", "/vendor/"}
	crates    = [...]string{"/rustc/", "/.cargo/", "/.rustup/", "/vendor/", "library/std/", "library/core/", "library/alloc/"}
)

// The prefixes of names of others.
var (
	javas = [...]string{
		"java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "jakarta.", "groovy.", "clojure.", "android.", "androidx.", "dalvik.",
		"com.android.", "org.springframework.", "org.apache.", "org.hibernate.", "org.eclipse.", "org.jboss.", "org.junit.", "org.gradle.", "org.codehaus.",
		"org.postgresql.", "com.mysql.", "com.zaxxer.", "com.fasterxml.", "com.google.common.", "io.netty.", "io.grpc.", "io.reactivex.", "io.vertx.",
		"io.micronaut.", "io.quarkus.", "io.ktor.", "reactor.", "akka.", "okhttp3.", "retrofit2.", "ch.qos.logback.", "org.slf4j.", "feign.",
	}
	dotnets = [...]string{
		"System.", "Microsoft.", "MS.", "Windows.", "Mono.", "lambda_method", "Newtonsoft.", "Castle.", "Autofac.", "NUnit.", "Xunit.", "MediatR.", "Npgsql.",
	}
	rusts = [...]string{
		"std::", "core::", "alloc::", "rust_begin_unwind", "__rust", "rust_panic", "_start", "__libc_start", "start_thread", "clone3", "tokio::", "<alloc::", "<core::", "<std::",
		"backtrace::", "main.cold",
	}
)

// javaMade are in the names of classes that Java's libraries make while they run.
var javaMade = [...]string{"$$", "$Proxy", "$HibernateProxy$", "$ByteBuddy$", "$MockitoMock$"}

func holds(text string, any []string) bool {
	for _, part := range any {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func begins(text string, any []string) bool {
	for _, start := range any {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}

// appScript reports whether a script is of the app: not of the engine, a browser's
// extension, a development server, or a bundle that is named for being of others.
func appScript(file string) bool {
	if file == "" {
		return true // only the function is known
	}
	switch file[0] {
	case '<', '[', '(': // <anonymous>, [native code], (webpack)
		return false
	}
	if begins(file, engines[:]) || ofExtension(file) || among(file, scripts[:]) {
		return false
	}
	return !begins(file[lastSlash(file)+1:], bundles[:])
}

// ofExtension reports whether a script is of a browser's extension.
func ofExtension(file string) bool {
	scheme, _, ok := strings.Cut(file[:min(len(file), 32)], "://")
	return ok && strings.HasSuffix(scheme, "-extension")
}

// among reports whether a segment of a path, but for the last, is one of some. It is
// asked of most frames, so that it looks at each byte but once.
func among(path string, any []string) bool {
	begin := 0
	for i := range len(path) {
		if path[i] != '/' && path[i] != '\\' {
			continue
		}
		segment := path[begin:i]
		begin = i + 1
		for _, one := range any {
			if segment == one {
				return true
			}
		}
	}
	return false
}

// The prefixes of the scripts of engines, and of bundles of others' code.
var (
	engines = [...]string{"node:", "internal/", "native", "index ", "ext:", "deno:", "bun:", "wasm:", "webpack/", "https://deno.land/std"}
	bundles = [...]string{"@react-refresh", "vendor", "polyfill", "framework-", "zone.js", "zone-evergreen", "jquery", "react-dom", "main-polyfill"}
)

// lastSlash is where the last slash of a path is, or backslash, or -1.
func lastSlash(path string) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' || path[i] == '\\' {
			return i
		}
	}
	return -1
}

// ofStdlib reports whether a file lies in Python's own library: lib/python3.12/json.
func ofStdlib(file string) bool {
	at := strings.Index(file, "lib/python")
	return at >= 0 && at+len("lib/python") < len(file) && isDigit(file[at+len("lib/python")])
}

// goStandard reports whether a frame is of Go's runtime or library: its package is one
// of theirs, and lies in a source tree of Go's, or has no place at all (-trimpath).
func goStandard(f *frame) bool {
	pkg := f.function
	if slash := strings.LastIndexByte(pkg, '/'); slash >= 0 {
		dot := strings.IndexByte(pkg[slash:], '.')
		if dot < 0 {
			return false
		}
		pkg = pkg[:slash+dot]
	} else if dot := strings.IndexByte(pkg, '.'); dot >= 0 {
		pkg = pkg[:dot]
	}
	root, _, _ := strings.Cut(pkg, "/")
	if !goRoots[root] {
		return false
	}
	at := strings.Index(f.file, pkg+"/")
	return at == 0 || at > 0 && strings.HasSuffix(f.file[:at], "/src/") || f.file == ""
}

// goRoots are what the packages of Go's library begin with.
var goRoots = map[string]bool{
	"archive": true, "bufio": true, "bytes": true, "cmp": true, "compress": true, "container": true, "context": true, "crypto": true, "database": true, "debug": true,
	"embed": true, "encoding": true, "errors": true, "expvar": true, "flag": true, "fmt": true, "go": true, "hash": true, "html": true, "image": true, "index": true,
	"internal": true, "io": true, "iter": true, "log": true, "maps": true, "math": true, "mime": true, "net": true, "os": true, "path": true, "plugin": true, "reflect": true,
	"regexp": true, "runtime": true, "slices": true, "sort": true, "strconv": true, "strings": true, "structs": true, "sync": true, "syscall": true, "testing": true,
	"text": true, "time": true, "unicode": true, "unique": true, "unsafe": true, "weak": true,
}

// appClass reports whether a method is of the app, and of a class of its source code:
// proxies and lambdas are made again each time.
func appClass(name string) bool {
	if holds(name, javaMade[:]) { // with its address behind a slash, perhaps
		return false
	}
	return !begins(withoutModule(name), javas[:])
}

// withoutModule takes the class loader and the module off a name of Java:
// app//com.acme.Cart.total, java.base/java.lang.Thread.run.
func withoutModule(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
