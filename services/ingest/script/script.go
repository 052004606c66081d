// Package script serves tocsin.js, the script that pages load to report errors, requests,
// vitals, actions and so on.
//
// Its sources are in src; make script, which needs Node, bundles them into the binary. The
// package checks no Host and no Origin: every page may read the script.
package script

import (
	"embed"
	"net/http"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

//go:embed all:dist
var dist embed.FS

// Built reports whether the binary contains the script.
func Built() bool { return bundle() != nil }

// bundle returns the script, or nil if the binary was built without it.
func bundle() []byte {
	data, err := dist.ReadFile("dist/tocsin.js")
	if err != nil {
		return nil
	}
	return data
}

// missing is the answer of a binary without the script.
const missing = "this build of Tocsin was built without the browser script, as go install does: install a release from https://github.com/tocsin-bus/tocsin/releases, or clone the repository and run make build with Node.js 20.19 or newer; then restart tocsin\n"

// Handler returns a handler that answers with the script. The caller decides which methods
// and which pages it serves.
func Handler() http.Handler { return handlerOf(bundle()) }

func handlerOf(bundle []byte) http.Handler {
	if bundle == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			header := allowEveryPage(w)
			header.Set("Content-Type", "text/plain; charset=utf-8")
			header.Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(missing)) // the browser may be gone
		})
	}
	file := httpserve.NewFile("text/javascript; charset=utf-8", bundle)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// no-cache: the browser checks for a new version of the script at each load.
		allowEveryPage(w).Set("Cache-Control", "no-cache")
		file.ServeHTTP(w, r)
	})
}

// allowEveryPage sets the headers with which pages of every site may load the script, also
// cross-origin isolated ones.
func allowEveryPage(w http.ResponseWriter) http.Header {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	header.Set("Access-Control-Allow-Origin", "*")
	return header
}
