package stack

import "strings"

// languageOf returns the language of a file by its extension, or fallback if that is unknown.
func languageOf(file string, fallback language) language {
	dot := strings.LastIndexByte(file, '.')
	if dot < 0 {
		return fallback
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
		return fallback
	}
}

// inApp reports whether a frame is of the app's own code, which is all code that is not known
// to be of libraries.
func inApp(f *frame) bool {
	switch f.language {
	case javaScript:
		return isAppScript(f.file)
	case python:
		return !containsAny(f.file, pythonDirs[:]) && !strings.HasPrefix(f.file, "<") && !isPythonStandard(f.file)
	case golang:
		return !containsAny(f.file, goModules[:]) && !isGoStandard(f)
	case java:
		return isAppClass(f.function)
	case dotnet:
		return !hasAnyPrefix(f.function, dotnetPrefixes[:])
	case unknown: // without a file, or with an unknown extension
		return !hasAnyPrefix(f.function, dotnetPrefixes[:]) && !hasAnyPrefix(f.function, rustPrefixes[:]) && !containsAny(f.file, vendorDirs[:])
	case ruby:
		return !containsAny(f.file, rubyDirs[:]) && !strings.HasPrefix(f.file, "<internal:") && !strings.HasPrefix(f.file, "(eval")
	case php:
		return f.file != "[internal function]" && !strings.Contains(f.file, "/vendor/")
	default:
		return !containsAny(f.file, rustDirs[:]) && !hasAnyPrefix(strings.TrimLeft(f.function, "<&"), rustPrefixes[:])
	}
}

// Parts of the paths of libraries.
var (
	vendorDirs = [...]string{"node_modules", "/vendor/", "site-packages", "/.cargo/"}
	scriptDirs = [...]string{"node_modules", "vendor", "webpack", "@vite", "bower_components", "~"} // segments of a path
	pythonDirs = [...]string{"site-packages", "dist-packages", "/vendor/", "\\Lib\\", "\\lib\\"}
	goModules  = [...]string{"@v", "/vendor/"}
	rubyDirs   = [...]string{"/gems/", "/lib/ruby/", "/rubygems/", "/bundler/", "/bin/bundle", "/vendor/"}
	rustDirs   = [...]string{"/rustc/", "/.cargo/", "/.rustup/", "/vendor/", "library/std/", "library/core/", "library/alloc/"}
)

// Prefixes of the names of functions in libraries.
var (
	javaPrefixes = [...]string{
		"java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "jakarta.", "groovy.", "clojure.", "android.", "androidx.", "dalvik.",
		"com.android.", "org.springframework.", "org.apache.", "org.hibernate.", "org.eclipse.", "org.jboss.", "org.junit.", "org.gradle.", "org.codehaus.",
		"org.postgresql.", "com.mysql.", "com.zaxxer.", "com.fasterxml.", "com.google.common.", "io.netty.", "io.grpc.", "io.reactivex.", "io.vertx.",
		"io.micronaut.", "io.quarkus.", "io.ktor.", "reactor.", "akka.", "okhttp3.", "retrofit2.", "ch.qos.logback.", "org.slf4j.", "feign.",
	}
	dotnetPrefixes = [...]string{
		"System.", "Microsoft.", "MS.", "Windows.", "Mono.", "lambda_method", "Newtonsoft.", "Castle.", "Autofac.", "NUnit.", "Xunit.", "MediatR.", "Npgsql.",
	}
	rustPrefixes = [...]string{
		"std::", "core::", "alloc::", "rust_begin_unwind", "__rust", "rust_panic", "_start", "__libc_start", "start_thread", "clone3", "tokio::", "<alloc::", "<core::", "<std::",
		"backtrace::", "main.cold",
	}
)

// javaGenerated are parts of the names of classes that Java's libraries generate at run time.
var javaGenerated = [...]string{"$$", "$Proxy", "$HibernateProxy$", "$ByteBuddy$", "$MockitoMock$"}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func hasAnyPrefix(text string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// isAppScript reports whether a script is of the app, and not of the engine, a browser's
// extension, a development server, or a bundle with the name of a library.
func isAppScript(file string) bool {
	if file == "" {
		return true // only the function is known
	}
	switch file[0] {
	case '<', '[', '(': // <anonymous>, [native code], (webpack)
		return false
	}
	if hasAnyPrefix(file, enginePrefixes[:]) || isExtension(file) || hasSegment(file, scriptDirs[:]) {
		return false
	}
	return !hasAnyPrefix(file[lastSlash(file)+1:], bundlePrefixes[:])
}

// isExtension reports whether a script is of a browser's extension.
func isExtension(file string) bool {
	scheme, _, ok := strings.Cut(file[:min(len(file), 32)], "://")
	return ok && strings.HasSuffix(scheme, "-extension")
}

// hasSegment reports whether a segment of a path, except the last, is one of some. It is
// called for most frames, so it reads each byte only once.
func hasSegment(path string, segments []string) bool {
	begin := 0
	for i := range len(path) {
		if path[i] != '/' && path[i] != '\\' {
			continue
		}
		segment := path[begin:i]
		begin = i + 1
		for _, s := range segments {
			if segment == s {
				return true
			}
		}
	}
	return false
}

// Prefixes of the scripts of engines, and of bundles with the code of libraries.
var (
	enginePrefixes = [...]string{"node:", "internal/", "native", "index ", "ext:", "deno:", "bun:", "wasm:", "webpack/", "https://deno.land/std"}
	bundlePrefixes = [...]string{"@react-refresh", "vendor", "polyfill", "framework-", "zone.js", "zone-evergreen", "jquery", "react-dom", "main-polyfill"}
)

// lastSlash returns the index of the last slash or backslash in a path, or -1.
func lastSlash(path string) int {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' || path[i] == '\\' {
			return i
		}
	}
	return -1
}

// isPythonStandard reports whether a file is in Python's own library: lib/python3.12/json.
func isPythonStandard(file string) bool {
	at := strings.Index(file, "lib/python")
	return at >= 0 && at+len("lib/python") < len(file) && isDigit(file[at+len("lib/python")])
}

// isGoStandard reports whether a frame is of Go's runtime or library: its package is one of
// theirs, and its file is in a source tree of Go or missing (-trimpath).
func isGoStandard(f *frame) bool {
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

// goRoots are the first elements of the paths of packages in Go's library.
var goRoots = map[string]bool{
	"archive": true, "bufio": true, "bytes": true, "cmp": true, "compress": true, "container": true, "context": true, "crypto": true, "database": true, "debug": true,
	"embed": true, "encoding": true, "errors": true, "expvar": true, "flag": true, "fmt": true, "go": true, "hash": true, "html": true, "image": true, "index": true,
	"internal": true, "io": true, "iter": true, "log": true, "maps": true, "math": true, "mime": true, "net": true, "os": true, "path": true, "plugin": true, "reflect": true,
	"regexp": true, "runtime": true, "slices": true, "sort": true, "strconv": true, "strings": true, "structs": true, "sync": true, "syscall": true, "testing": true,
	"text": true, "time": true, "unicode": true, "unique": true, "unsafe": true, "weak": true,
}

// isAppClass reports whether a method is of a class in the source code of the app. Proxies and
// lambdas are not: their names differ each time.
func isAppClass(name string) bool {
	if containsAny(name, javaGenerated[:]) { // an address may follow behind a slash
		return false
	}
	return !hasAnyPrefix(withoutModule(name), javaPrefixes[:])
}

// withoutModule removes the class loader and the module from a name of Java:
// app//com.acme.Cart.total, java.base/java.lang.Thread.run.
func withoutModule(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
