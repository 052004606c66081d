// Package script serves tocsin.js, which pages load to tell what goes on in
// them: errors, requests, vitals, actions and so on.
//
// Its sources are the TypeScript below src; the bundle is built by make script,
// where there is Node, and is part of the binary. The package knows no Host and
// no Origin: the script holds nothing that a page may not read.
package script

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// built is the script, or nil when the binary was built without.
func built() []byte {
	bundle, err := dist.ReadFile("dist/tocsin.js")
	if err != nil {
		return nil
	}
	return bundle
}

// missing is the answer of a binary that has no script.
const missing = "this tocsin was built without the page script: install Node.js 18 or newer with npm, run make build in the sources, and start it again\n"

// Handler answers GET and HEAD with the script. Which methods and which pages
// are let in is decided before.
func Handler() http.Handler { return serving(built()) }

func serving(bundle []byte) http.Handler {
	if bundle == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			header := public(w)
			header.Set("Content-Type", "text/plain; charset=utf-8")
			header.Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(missing)) // a browser that went away needs no answer
		})
	}
	sum := sha256.Sum256(bundle)
	name := hex.EncodeToString(sum[:8])
	return &server{
		plain:  variant{`"` + name + `"`, bundle},
		zipped: variant{`"` + name + `-gzip"`, zip(bundle)},
	}
}

// variant is the script in one encoding.
type variant struct {
	tag  string // as ETag has it
	body []byte
}

type server struct{ plain, zipped variant }

// ServeHTTP answers with the script, or says that the browser has it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := public(w)
	answer := s.plain
	if takesGzip(r.Header.Values("Accept-Encoding")) {
		answer = s.zipped
	}
	header.Set("Etag", answer.tag)
	// A page that is loaded again asks again: another version of the intake may
	// have another script.
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept-Encoding")
	if s.known(r.Header.Values("If-None-Match")) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "text/javascript; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(answer.body)))
	if answer.tag == s.zipped.tag {
		header.Set("Content-Encoding", "gzip")
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(answer.body) // a browser that went away needs no answer
	}
}

// public lets pages of every site load the script, those that are isolated from
// others included.
func public(w http.ResponseWriter) http.Header {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	header.Set("Access-Control-Allow-Origin", "*")
	return header
}

// known says whether the browser has the script. In which encoding it came
// makes no difference to what it has.
func (s *server) known(ifNoneMatch []string) bool {
	for tag := range elements(ifNoneMatch) {
		tag = strings.TrimPrefix(tag, "W/")
		if tag == "*" || tag == s.plain.tag || tag == s.zipped.tag {
			return true
		}
	}
	return false
}

// takesGzip reads Accept-Encoding (RFC 9110, section 12.5.3).
func takesGzip(values []string) bool {
	for element := range elements(values) {
		coding, params, _ := strings.Cut(element, ";")
		if !slices.Contains([]string{"gzip", "x-gzip", "*"}, strings.ToLower(strings.TrimSpace(coding))) {
			continue
		}
		weight, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(params)), "q=")
		q, err := strconv.ParseFloat(weight, 64)
		return !found || err == nil && q > 0
	}
	return false
}

// elements are those of a list in a header.
func elements(values []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, value := range values {
			for element := range strings.SplitSeq(value, ",") {
				if !yield(strings.TrimSpace(element)) {
					return
				}
			}
		}
	}
}

func zip(data []byte) []byte {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the level is one, and memory takes all
	}
	return zipped.Bytes()
}
