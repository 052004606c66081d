package stack_test

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/template"
)

// fingerprint returns what package errortrack hashes: the key, and the message if the key
// alone is vague.
func fingerprint(text, message string) string {
	key, t := keyOf(text, message)
	for _, words := range t.Causes {
		key += "cause: " + template.Message(words) + "\n"
	}
	switch {
	case t.Frames == 0:
		return "words: " + template.Message(message)
	case !t.Vague():
		return key
	case t.Headline != "" && strings.Contains(message, t.Headline):
		message = ""
	}
	return key + "words: " + template.Message(message) + ", " + template.Message(t.Headline)
}

type seen struct{ text, message string }

// js returns an error in Chromium. Its frames are given as "name location", the innermost
// first.
func js(headline string, frames ...string) seen {
	var b strings.Builder
	b.WriteString(headline)
	for _, f := range frames {
		name, location, named := strings.Cut(f, " ")
		if named && name != "" {
			b.WriteString("\n    at " + strings.ReplaceAll(name, "+", " ") + " (" + location + ")")
		} else {
			b.WriteString("\n    at " + strings.TrimSpace(f))
		}
	}
	return seen{b.String(), "Uncaught " + headline}
}

// TestSameError checks that one bug is one error on all builds, machines, lines and ids, and
// that two bugs are two errors. The table also has the cases in which this fails.
func TestSameError(t *testing.T) {
	const undefined = "TypeError: Cannot read properties of undefined (reading 'total')"
	for _, tt := range []struct {
		name string
		a, b seen
		one  bool
	}{
		// One bug.
		{"two builds", js(undefined, "renderCart https://shop.example/assets/cart-8f3c2a1b.js:10:15"), js(undefined, "renderCart https://shop.example/assets/cart-77aa01de.js:12:3"), true},
		{"two builds of Vite", js(undefined, "renderCart https://shop.example/assets/cart-BxK3d9a_.js:10:15"), js(undefined, "renderCart https://shop.example/assets/cart-DiwrgTda.js:1:1"), true},
		{"two builds of esbuild", js(undefined, "renderCart https://shop.example/chunk-7WGJ2KAS.js:10:15"), js(undefined, "renderCart https://shop.example/chunk-QQXABRTE.js:1:1"), true},
		{"two builds of webpack", js(undefined, "renderCart https://shop.example/static/js/main.8f3c2a1b9d0e1f2a3b4c.chunk.js:1:15"), js(undefined, "renderCart https://shop.example/static/js/main.aa3c2a1b9d0e1f2a3b4c.chunk.js:1:99"), true},
		{"two ids of a chunk", js(undefined, "renderCart https://shop.example/chunks/4521-8f3c2a1b9d0e1f2a.js:1:15"), js(undefined, "renderCart https://shop.example/chunks/88-0f3c2a1b9d0e1f2b.js:1:99"), true},
		{"two hosts", js(undefined, "renderCart https://shop.example/assets/cart.js:10:15"), js(undefined, "renderCart http://localhost:3000/assets/cart.js?t=1769610000:10:15"), true},
		{"two places on a disk", js(undefined, "renderCart /home/ada/shop/src/cart.js:10:15"), js(undefined, `renderCart C:\work\shop\src\cart.js:10:15`), true},
		{"two releases", js(undefined, "renderCart /srv/shop/releases/20260128143000/src/cart.js:10:15"), js(undefined, "renderCart /srv/shop/releases/20260129090000/src/cart.js:10:15"), true},
		{"the development server and the same file built", js(undefined, "renderCart webpack-internal:///(app-pages-browser)/./src/cart.js:10:15"), js(undefined, "renderCart https://shop.example/src/cart.js:10:15"), true},
		{"other properties, which are quoted, of one line", js("TypeError: Cannot read properties of undefined (reading 'a')", "f1x /a/src/x.js:1:1"), js("TypeError: Cannot read properties of undefined (reading 'b')", "f1x /a/src/x.js:1:1"), true},
		{"async frames", js(undefined, "renderCart /a/src/cart.js:1:1", "async+load /a/src/page.js:1:1"), js(undefined, "renderCart /a/src/cart.js:1:1", "load /a/src/page.js:1:1"), true},
		{"recursion", js("RangeError: Maximum call stack size exceeded", "walk /a/src/tree.js:3:1", "walk /a/src/tree.js:3:9", "walk /a/src/tree.js:3:9"), js("RangeError: Maximum call stack size exceeded", "walk /a/src/tree.js:3:9", "walk /a/src/tree.js:3:9"), true},
		{"two functions that call each other, to another depth", js(undefined, "even /a/src/n.js:1:1", "odd /a/src/n.js:2:1", "even /a/src/n.js:1:1", "main /a/src/n.js:3:1"), js(undefined, "even /a/src/n.js:1:1", "odd /a/src/n.js:2:1", "main /a/src/n.js:3:1"), true},
		{"with another library's frames in between", js(undefined, "renderCart /a/src/cart.js:1:1", "Layer.handle /a/node_modules/express/lib/router/layer.js:95:5"), js(undefined, "renderCart /a/src/cart.js:1:1", "next /a/node_modules/express/lib/router/route.js:4:1", "Layer.handle /a/node_modules/express/lib/router/layer.js:99:5"), true},
		{"an extension that wrapped fetch", js(undefined, "renderCart /a/src/cart.js:1:1"), js(undefined, "fetch chrome-extension://abcdef/wrap.js:1:1", "renderCart /a/src/cart.js:1:1"), true},
		{"an anonymous function that is one still", js(undefined, "/a/src/routes.js:10:5", "main /a/src/main.js:1:1"), js(undefined, "/a/src/routes.js:14:5", "main /a/src/main.js:1:1"), true},
		{"ids in the words of a generic error", js("Error: order 17 not found", "find /a/src/orders.js:1:1"), js("Error: order 18 not found", "find /a/src/orders.js:1:1"), true},
		{"ids in the words of a type of the app's", js("NotFoundError: no ann", "find /a/src/orders.js:1:1"), js("NotFoundError: no bob", "find /a/src/orders.js:1:1"), true},
		{"called from further away in two ways", js(undefined, "a12 /s/a.js:1:1", "b12 /s/b.js:1:1", "c12 /s/c.js:1:1", "d12 /s/d.js:1:1", "e12 /s/e.js:1:1", "f12 /s/f.js:1:1", "home /s/home.js:1:1"),
			js(undefined, "a12 /s/a.js:1:1", "b12 /s/b.js:1:1", "c12 /s/c.js:1:1", "d12 /s/d.js:1:1", "e12 /s/e.js:1:1", "f12 /s/f.js:1:1", "cart /s/cart.js:1:1"), true},
		{"a minifier's names of two builds", js(undefined, "t https://shop.example/assets/cart-8f3c2a1b.js:1:1", "Qe https://shop.example/assets/cart-8f3c2a1b.js:1:1"), js(undefined, "n https://shop.example/assets/cart-77aa01de.js:1:9", "r2 https://shop.example/assets/cart-77aa01de.js:1:9"), true},
		{"a minified class with a method", js(undefined, "t.renderCart https://shop.example/a/cart.js:1:1"), js(undefined, "Qe.renderCart https://shop.example/a/cart.js:1:1"), true},
		{"a minifier's names of three letters", js(undefined, "renderCart https://shop.example/a/cart.js:1:1", "Xlt https://shop.example/a/cart.js:1:1", "t https://shop.example/a/cart.js:1:1"), js(undefined, "renderCart https://shop.example/a/cart.js:1:1", "Qpe https://shop.example/a/cart.js:1:1", "n https://shop.example/a/cart.js:1:1"), true},
		{"closures of Go", seen{strings.Replace(goPanic, "func1", "func2.1", 1), "panic"}, seen{goPanic, "panic"}, true},
		{"addresses and lines of Go", seen{strings.NewReplacer("0xc000012345", "0xc0000abcde", ":33 +0x1d", ":40 +0x2f").Replace(goPanic), "panic"}, seen{goPanic, "panic"}, true},
		{"lambdas and proxies of Java", seen{strings.NewReplacer("$render$3", "$render$11", "CGLIB$$0", "CGLIB$$1").Replace(javaTrace), ""}, seen{javaTrace, ""}, true},
		{"closures and state machines of .NET", seen{strings.NewReplacer("Class3_0", "Class12_1", "b__0", "b__2", "d__5", "d__7", "work\\17", "work\\18").Replace(dotnetTrace), ""}, seen{dotnetTrace, ""}, true},
		{"two releases of Ruby's app", seen{strings.ReplaceAll(rubyTrace, "20260128143000", "20260301000000"), ""}, seen{rubyTrace, ""}, true},
		{"arguments of PHP", seen{strings.Replace(phpTrace, "Object(App\\Item), 17", "Object(App\\Gift), 3", 1), ""}, seen{phpTrace, ""}, true},
		{"two builds of Rust", seen{strings.NewReplacer("h0123456789abcdef", "hfedcba9876543210", "07dca489", "99dca489", "src/cart.rs:12:5", "src/cart.rs:13:9").Replace(rustTrace), "panic"}, seen{rustTrace, "panic"}, true},
		{"two versions of Python and its libraries", seen{strings.ReplaceAll(python, "python3.12", "python3.13"), ""}, seen{python, ""}, true},
		{"caught by two", seen{chrome, "no cart: TypeError: Cannot read properties of undefined (reading 'total')"}, seen{chrome, "Uncaught TypeError: Cannot read properties of undefined (reading 'total')"}, true},
		{"two items of Python", seen{strings.ReplaceAll(python, "'apple'", "'pear'"), "no price"}, seen{python, "no price"}, true},
		{"two items of Python, logged with theirs", seen{strings.ReplaceAll(python, "'apple'", "'pear'"), "cart: KeyError: 'pear'"}, seen{python, "cart: KeyError: 'apple'"}, true},

		{"a script in many pages", js("ReferenceError: gtag is not defined", "track https://shop.example/products/red-shoes:10:5", " https://shop.example/products/red-shoes:44:1"), js("ReferenceError: gtag is not defined", "track https://shop.example/products/blue-hat?size=3:10:5", " https://shop.example/products/blue-hat?size=3:44:1"), true},
		{"a script without a function in many pages", js("ReferenceError: gtag is not defined", " https://shop.example/red-shoes.html:10:5"), js("ReferenceError: gtag is not defined", " https://shop.example/blue-hat.html:10:5"), true},
		{"classes that Java makes of lambdas, with their addresses", seen{"java.lang.IllegalStateException: x\n\tat com.acme.Cart$$Lambda$123/0x0000000800c3f840.run(Unknown Source)\n\tat com.acme.Cart.total(Cart.java:10)", ""}, seen{"java.lang.IllegalStateException: x\n\tat com.acme.Cart$$Lambda$7/0x00000008aaaaf840.run(Unknown Source)\n\tat com.acme.Cart.total(Cart.java:10)", ""}, true},
		{"proxies of Hibernate", seen{"java.lang.IllegalStateException: x\n\tat com.acme.User$HibernateProxy$Uc8Gn3ae.getName(Unknown Source)\n\tat com.acme.Cart.total(Cart.java:10)", ""}, seen{"java.lang.IllegalStateException: x\n\tat com.acme.User$HibernateProxy$Zk1Lm0bq.getName(Unknown Source)\n\tat com.acme.Cart.total(Cart.java:10)", ""}, true},
		{"functions of Clojure", seen{"clojure.lang.ExceptionInfo: x\n\tat shop.core$total$fn__1234.invoke(core.clj:10)", ""}, seen{"clojure.lang.ExceptionInfo: x\n\tat shop.core$total$fn__77.invoke(core.clj:12)", ""}, true},
		{"a view of Rails in two processes", seen{"app/views/carts/show.html.erb:3:in `_app_views_carts_show_html_erb___2309848092_45680': undefined method `x' for nil (NoMethodError)", ""}, seen{"app/views/carts/show.html.erb:3:in `_app_views_carts_show_html_erb__117_9': undefined method `x' for nil (NoMethodError)", ""}, true},

		// Two bugs.
		{"two pages of a router of files", js(undefined, "Page /a/src/app/orders/[id]/page.tsx:3:1"), js(undefined, "Page /a/src/app/users/[id]/page.tsx:3:1"), false},
		{"two pages of one group", js(undefined, "Page /a/src/app/orders/(shop)/[id]/page.tsx:3:1"), js(undefined, "Page /a/src/app/users/(shop)/[id]/page.tsx:3:1"), false},
		{"two answers that one wrapper throws as a type of a library's", js("HttpClientErrorException: payments are down", "request /a/src/api.js:1:1"), js("HttpClientErrorException: no such profile", "request /a/src/api.js:1:1"), false},
		{"two answers that one wrapper throws as a general type of the app's", js("AppError: payments are down", "request /a/src/api.js:1:1"), js("AppError: no such profile", "request /a/src/api.js:1:1"), false},
		{"two queries that fail in one function", seen{"PrismaClientUnknownRequestError: deadlock detected\n    at save (/a/src/db.js:1:1)", ""}, seen{"PrismaClientUnknownRequestError: no such table\n    at save (/a/src/db.js:1:1)", ""}, false},
		{"two queries that fail, caught as a type of the app's", seen{javaTrace, ""}, seen{strings.Replace(javaTrace, "java.sql.SQLException: ", "java.sql.SQLException: deadlock detected, ", 1), ""}, false},
		{"two causes of Node in one function", js("CartError: no cart", "load /a/src/api.js:1:1 {\n  [cause]: Error: connect ECONNREFUSED 127.0.0.1:5432"), js("CartError: no cart", "load /a/src/api.js:1:1 {\n  [cause]: Error: getaddrinfo ENOTFOUND api.example"), false},
		{"two functions", js(undefined, "renderCart /a/src/cart.js:1:1"), js(undefined, "renderMenu /a/src/cart.js:1:1"), false},
		{"two files", js(undefined, "render /a/src/cart.js:1:1"), js(undefined, "render /a/src/menu.js:1:1"), false},
		{"two classes", js(undefined, "Cart.render /a/src/app.js:1:1"), js(undefined, "Menu.render /a/src/app.js:1:1"), false},
		{"two types in one function", js(undefined, "renderCart /a/src/cart.js:1:1"), js("RangeError: Invalid array length", "renderCart /a/src/cart.js:1:1"), false},
		{"two codes of Node in one function", js("TypeError [ERR_INVALID_URL]: Invalid URL", "open /a/src/cart.js:1:1"), js("TypeError [ERR_INVALID_ARG_TYPE]: The argument is wrong", "open /a/src/cart.js:1:1"), false},
		{"two callers of a function", js(undefined, "get /a/src/util.js:1:1", "renderCart /a/src/cart.js:1:1"), js(undefined, "get /a/src/util.js:1:1", "renderMenu /a/src/menu.js:1:1"), false},
		{"two errors that one wrapper throws", js("Error: no route to Berlin", "request /a/src/api.js:1:1"), js("Error: payment was declined", "request /a/src/api.js:1:1"), false},
		{"two answers that one wrapper throws", js("AxiosError: Network Error", "request /a/src/api.js:1:1"), js("AxiosError: timeout of 5000ms exceeded", "request /a/src/api.js:1:1"), false},
		{"two assertions", js("AssertionError: cart is open", "assert /a/src/assert.js:1:1"), js("AssertionError: user is known", "assert /a/src/assert.js:1:1"), false},
		{"two lines that one function logs", seen{"    at report (/a/src/log.js:1:1)", "payment failed"}, seen{"    at report (/a/src/log.js:1:1)", "no such cart"}, false},
		{"two errors that one function logs, with their types", seen{"    at report (/a/src/log.js:1:1)", "TypeError: a is undefined"}, seen{"    at report (/a/src/log.js:1:1)", "TypeError: b is no function"}, false},
		{"words of an error whose functions have no names", js("TypeError: a is undefined", "t /a/src/x.js:1:1"), js("TypeError: b is no function", "t /a/src/x.js:1:1"), false},
		{"files of such an error", js(undefined, "t https://shop.example/a/cart.js:1:1"), js(undefined, "t https://shop.example/a/menu.js:1:1"), false},
		{"errors of libraries alone, by their words", js("TypeError: a is undefined", "f1x /a/node_modules/x.js:1:1"), js("TypeError: b is no function", "f1x /a/node_modules/x.js:1:1"), false},
		{"two methods of one name in Java", seen{javaTrace, ""}, seen{strings.ReplaceAll(javaTrace, "shop.Cart", "shop.Menu"), ""}, false},
		{"one that was caused by another in Java", seen{javaTrace, ""}, seen{strings.ReplaceAll(javaTrace, "java.sql.SQLException", "java.net.ConnectException"), ""}, false},
		{"one that was caused by another in Python", seen{pythonCaused, ""}, seen{strings.ReplaceAll(pythonCaused, "KeyError", "IndexError"), ""}, false},
		{"two panics of Go in one function", seen{goPanic, "panic: index out of range [5] with length 3"}, seen{strings.Replace(goPanic, "index out of range [5] with length 3", "invalid memory address or nil pointer dereference", 1), "panic"}, false},
		{"Go's functions of one letter", seen{strings.ReplaceAll(goPanic, "main.total", "main.f"), "x"}, seen{strings.ReplaceAll(goPanic, "main.total", "main.g"), "x"}, false},

		{"two lines of one function, by their words", js(undefined, "renderCart /a/src/cart.js:10:1"), js("TypeError: f is not a function", "renderCart /a/src/cart.js:44:1"), false},

		// The limits. Without positions, two lines of one function are one error if type and
		// message are the same, or if the app throws one type of its own in both. Browsers
		// have their own messages and names for one bug.
		{"two lines of one function that say the same are one", js(undefined, "renderCart /a/src/cart.js:10:1"), js(undefined, "renderCart /a/src/cart.js:44:1"), true},
		{"two lines of one function that throw a type of the app's are one", js("CartError: no price", "renderCart /a/src/cart.js:10:1"), js("CartError: no owner", "renderCart /a/src/cart.js:44:1"), true},
		{"a bug in Chrome and in Firefox is two", js(undefined, "renderCart https://shop.example/cart.js:10:1"), seen{"renderCart@https://shop.example/cart.js:10:1", "Uncaught TypeError: x is undefined"}, false},
		{"a type of the app's in Chrome and in Firefox is one", js("CartError: no price", "renderCart https://shop.example/cart.js:10:1"), seen{"renderCart@https://shop.example/cart.js:10:1", "Uncaught CartError: no price"}, true},
		{"a function that was renamed is another", js(undefined, "renderCart /a/src/cart.js:10:1"), js(undefined, "drawCart /a/src/cart.js:10:1"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := fingerprint(tt.a.text, tt.a.message), fingerprint(tt.b.text, tt.b.message)
			if got := a == b; got != tt.one {
				t.Errorf("got one error: %v, want %v\n%s\nand\n%s", got, tt.one, a, b)
			}
		})
	}
}
