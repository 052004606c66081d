package stack_test

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/stack"
)

// keyOf returns the key of a trace as text: the type, then a line for each frame.
func keyOf(text, message string) (string, stack.Trace) {
	key, t := stack.Append(nil, text, message)
	return strings.ReplaceAll(string(key), "\t", " | "), t
}

// Traces as the runtimes write them.
const (
	chrome = `TypeError: Cannot read properties of undefined (reading 'total')
    at Cart.price (https://shop.example/assets/cart-8f3c2a1b.js:10:1523)
    at renderCart (https://shop.example/assets/cart-8f3c2a1b.js:44:12)
    at Array.map (<anonymous>)
    at async loadPage (https://shop.example/assets/index-BxK3d9a_.js?v=3:1:400)
    at dispatch (https://shop.example/node_modules/framework/index.js:1:3001)
    at HTMLButtonElement.<anonymous> (chrome-extension://abcdef/content.js:1:2)`
	firefox = `price@https://shop.example/assets/cart-8f3c2a1b.js:10:1523
renderCart/items<@https://shop.example/assets/cart-8f3c2a1b.js:44:12
async*loadPage@https://shop.example/assets/index.js:1:400
setTimeout handler*start@https://shop.example/assets/index.js:2:1
@https://shop.example/assets/index.js:9:9
dispatch@https://shop.example/node_modules/framework/index.js:1:3001`
	safari = `price@https://shop.example/assets/cart-8f3c2a1b.js:10:1523
map@[native code]
renderCart@https://shop.example/assets/cart-8f3c2a1b.js:44:12
global code@https://shop.example/assets/index.js:9:9`
	node = `/srv/shop/src/cart.js:10
    throw new CartEmptyError(id)
    ^

CartEmptyError: cart 1234 is empty
    at Cart.total (/srv/shop/src/cart.js:10:11)
    at new Order (file:///srv/shop/src/order.mjs:3:5)
    at /srv/shop/src/routes.js:44:12
    at Layer.handle [as handle_request] (/srv/shop/node_modules/express/lib/router/layer.js:95:5)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
    at internal/main/run_main_module.js:17:47 {
  code: 'EMPTY'
}`
	python = `Traceback (most recent call last):
  File "/usr/lib/python3.12/runpy.py", line 88, in _run_code
    exec(code, run_globals)
  File "/srv/shop/app/views.py", line 31, in cart
    return total(request.cart)
           ^^^^^^^^^^^^^^^^^^^
  File "/srv/venv/lib/python3.12/site-packages/django/db/models.py", line 3, in get
    raise self.model.DoesNotExist(
  File "/srv/shop/app/prices.py", line 12, in total
    return prices[item]
KeyError: 'apple'`
	pythonCaused = `Traceback (most recent call last):
  File "/srv/shop/app/prices.py", line 12, in total
    return prices[item]
KeyError: 'apple'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/shop/app/views.py", line 31, in cart
    raise PriceMissing(item) from e
shop.app.PriceMissing: apple`
	goPanic = `panic: runtime error: index out of range [5] with length 3

goroutine 1 [running]:
main.total(...)
	/src/shop/main.go:12
example.com/shop/cart.(*Cart).Render.func1({0xc000012345, 0x3})
	/src/shop/cart/cart.go:33 +0x1d
net/http.HandlerFunc.ServeHTTP(0x1, {0x2, 0x3}, 0x4)
	/usr/local/go/src/net/http/server.go:2136 +0x29
created by main.main in goroutine 1
	/src/shop/main.go:5 +0x17
exit status 2`
	goRecovered = `goroutine 34 [running]:
runtime/debug.Stack()
	/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
example.com/shop/web.recovered.func1()
	/src/shop/web/recover.go:10 +0x2a
panic({0x6b2f40?, 0x7d2f18?})
	/usr/local/go/src/runtime/panic.go:785 +0x132
example.com/shop/cart.Sum[...](0x1)
	/src/shop/cart/cart.go:12 +0x1d
github.com/other/router.(*Mux).ServeHTTP(0x1)
	/go/pkg/mod/github.com/other/router@v1.2.3/mux.go:71 +0x29

goroutine 2 [running]:
example.com/shop/other.Wait()
	/src/shop/other/other.go:1 +0x1`
	javaTrace = `Exception in thread "main" com.acme.shop.CartException: cart 17 is broken
	at com.acme.shop.Cart.total(Cart.java:12)
	at com.acme.shop.Cart.lambda$render$3(Cart.java:33)
	at java.base/java.util.ArrayList.forEach(ArrayList.java:1511)
	at app//com.acme.shop.Page.render(Page.kt:7)
	at com.acme.shop.Page$$SpringCGLIB$$0.render(<generated>)
	at org.springframework.aop.Proxy.invoke(Proxy.java:1) ~[spring-aop-6.1.jar:6.1]
Caused by: java.sql.SQLException: no connection
	at com.mysql.cj.Driver.open(Driver.java:1)
	at com.acme.shop.Store.open(Store.java:5)
	... 23 more`
	dotnetTrace = `System.NullReferenceException: Object reference not set to an instance of an object.
   at Acme.Shop.Cart.<>c__DisplayClass3_0.<Total>b__0(Item i) in C:\work\17\s\src\Cart.cs:line 12
   at System.Linq.Enumerable.Sum[TSource](IEnumerable` + "`1" + ` source, Func` + "`2" + ` selector)
   at Acme.Shop.Page.<RenderAsync>d__5.MoveNext() in C:\work\17\s\src\Page.cs:line 31
--- End of stack trace from previous location ---
   at Microsoft.AspNetCore.Mvc.Infrastructure.ActionMethodExecutor.Execute(ActionContext c)`
	rubyTrace = `/srv/shop/releases/20260128143000/app/models/cart.rb:12:in ` + "`block (2 levels) in total': undefined method `price' for nil (NoMethodError)" + `
	from /srv/shop/releases/20260128143000/app/models/cart.rb:10:in ` + "`each'" + `
	from /usr/local/bundle/gems/rack-3.0.8/lib/rack/handler.rb:3:in ` + "`call'" + `
	from bin/rails:4:in ` + "`<main>'"
	phpTrace = `PHP Fatal error:  Uncaught App\Exceptions\CartEmpty: cart 17 is empty in /var/www/shop/src/Cart.php:12
Stack trace:
#0 /var/www/shop/src/Page.php(31): App\Cart->total(Object(App\Item), 17)
#1 [internal function]: App\Page->App\{closure}(Array)
#2 /var/www/shop/vendor/laravel/framework/src/Pipeline.php(180): array_map(Object(Closure), Array)
#3 {main}
  thrown in /var/www/shop/src/Cart.php on line 12`
	rustTrace = `thread 'main' panicked at src/cart.rs:12:5:
index out of bounds: the len is 3 but the index is 5
stack backtrace:
   0: rust_begin_unwind
             at /rustc/07dca489ac2d933c78d3c5158e3f43beefeb02ce/library/std/src/panicking.rs:645:5
   1: core::panicking::panic_fmt
             at /rustc/07dca489ac2d933c78d3c5158e3f43beefeb02ce/library/core/src/panicking.rs:72:14
   2: shop::cart::total::{{closure}}
             at ./src/cart.rs:12:5
   3: serde_json::from_str
             at /home/ci/.cargo/registry/src/index.crates.io-6f17d22bba15001f/serde_json-1.0/src/de.rs:1:1
   4: shop::main::h0123456789abcdef
             at ./src/main.rs:4:5
   5: core::ops::function::FnOnce::call_once`
)

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		name, text, message string
		want, top           string
		vague               bool
	}{
		{"Chrome", chrome, "", "TypeError\nCart.price | assets/cart.js\nrenderCart | assets/cart.js\nloadPage | assets/index.js\n", "Cart.price (assets/cart.js)", true},
		{"Firefox", firefox, "Uncaught TypeError: x is undefined", "TypeError\nprice | assets/cart.js\nrenderCart/items | assets/cart.js\nloadPage | assets/index.js\nstart | assets/index.js\n | assets/index.js\n", "price (assets/cart.js)", true},
		{"Safari", safari, "Unhandled rejection: TypeError: undefined is not an object", "TypeError\nprice | assets/cart.js\nrenderCart | assets/cart.js\n | assets/index.js\n", "price (assets/cart.js)", true},
		{"Node", node, "", "CartEmptyError\nCart.total | src/cart.js\nOrder | src/order.mjs\n | src/routes.js\n", "Cart.total (src/cart.js)", false},
		{"Python, outermost first", python, "", "KeyError\ntotal | app/prices.py\ncart | app/views.py\n", "total (app/prices.py)", true},
		{"Python, one caused by another", pythonCaused, "", "shop.app.PriceMissing\ncart | app/views.py\n<KeyError | total | app/prices.py\n", "cart (app/views.py)", false},
		{"Go, a panic", goPanic, "", "panic\nmain.total | shop/main.go\nexample.com/shop/cart.(*Cart).Render | cart/cart.go\n", "main.total (shop/main.go)", true},
		{"Go, what caught a panic doesn't count", goRecovered, "panic: no", "\nexample.com/shop/cart.Sum | cart/cart.go\n", "example.com/shop/cart.Sum (cart/cart.go)", true},
		{"Java, with its cause", javaTrace, "", "com.acme.shop.CartException\ncom.acme.shop.Cart.total | Cart.java\ncom.acme.shop.Cart.lambda$render$ | Cart.java\ncom.acme.shop.Page.render | Page.kt\n<java.sql.SQLException | com.acme.shop.Store.open | Store.java\n", "com.acme.shop.Cart.total (Cart.java)", false},
		{".NET", dotnetTrace, "", "System.NullReferenceException\nAcme.Shop.Cart.<>c__DisplayClass_.<Total>b__ | src/Cart.cs\nAcme.Shop.Page.<RenderAsync>d__.MoveNext | src/Page.cs\n", "Acme.Shop.Cart.<>c__DisplayClass_.<Total>b__ (src/Cart.cs)", true},
		{"Ruby", rubyTrace, "", "NoMethodError\ntotal | models/cart.rb\neach | models/cart.rb\n | bin/rails\n", "total (models/cart.rb)", true},
		{"PHP", phpTrace, "", "App\\Exceptions\\CartEmpty\nApp\\Cart->total | src/Cart.php\nApp\\Page->App\\{closure} | src/Page.php\n", "App\\Cart->total (src/Cart.php)", false},
		{"Rust", rustTrace, "", "panic\nshop::cart::total | src/cart.rs\nshop::main | src/main.rs\n", "shop::cart::total (src/cart.rs)", true},
		{"none", "", "TypeError: x", "", "", true},
		{"no trace at all", "order 17 failed\nagain at noon", "", "", "", true},
		{"only the libraries'", "TypeError: x\n    at f (/a/node_modules/b/c.js:1:2)\n    at node:internal/main:1:2", "", "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, trace := keyOf(tt.text, tt.message)
			if got != tt.want {
				t.Errorf("key =\n%s\nwant\n%s", got, tt.want)
			}
			if got := trace.Top(); got != tt.top {
				t.Errorf("Top() = %q, want %q", got, tt.top)
			}
			if got := trace.Vague(); got != tt.vague {
				t.Errorf("Vague() = %v, want %v", got, tt.vague)
			}
		})
	}
}
