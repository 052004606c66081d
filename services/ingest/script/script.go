// Package script serves tocsin.js, which pages load to send what happens in them: errors,
// requests, vitals, actions and so on.
//
// Its sources are the TypeScript below src; the bundle is built by make script, which
// needs Node, and is part of the binary. The package knows no Host and no Origin: the
// script holds nothing that a page may not read.
package script

import (
	"embed"
	"net/http"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

//go:embed all:dist
var dist embed.FS

// Built reports whether the binary has the script.
func Built() bool { return built() != nil }

// built returns the script, or nil if the binary was built without.
func built() []byte {
	bundle, err := dist.ReadFile("dist/tocsin.js")
	if err != nil {
		return nil
	}
	return bundle
}

// missing is the answer of a binary without the script.
const missing = "this build of Tocsin was built without the page script, as go install does: install a release from https://github.com/tocsin-bus/tocsin/releases, or clone the repository and run make build with Node.js 18 or newer; then restart tocsin\n"

// Handler answers GET and HEAD with the script. The caller decides which methods and which
// pages it serves.
func Handler() http.Handler { return serving(built()) }

func serving(bundle []byte) http.Handler {
	if bundle == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			header := public(w)
			header.Set("Content-Type", "text/plain; charset=utf-8")
			header.Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(missing)) // the browser may be gone
		})
	}
	file := httpserve.NewFile("text/javascript; charset=utf-8", bundle)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page that is reloaded checks for a new version of the script.
		public(w).Set("Cache-Control", "no-cache")
		file.ServeHTTP(w, r)
	})
}

// public lets pages of every site load the script, also those that are isolated from
// others.
func public(w http.ResponseWriter) http.Header {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	header.Set("Access-Control-Allow-Origin", "*")
	return header
}
