// Package web holds the dashboard's page and serves its files.
//
// Its sources are the TypeScript beside it; what is built from them is part of the
// binary. The package knows no Host, no Origin and no policy: whoever serves it
// sets those headers.
package web

import (
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/static"
)

//go:embed all:dist
var dist embed.FS

const (
	index = "/index.html"
	// hashed is where files lie whose names change with what is in them.
	hashed = "/assets/"
)

// Page is the page with all of its files, each under its path.
type Page struct {
	files map[string]http.Handler
	built bool
}

// New prepares the page that is in the binary, or one that says how to get it.
func New() (*Page, error) {
	built, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, err
	}
	return prepare(built)
}

// prepare makes a page of what a build has left in a folder.
func prepare(built fs.FS) (*Page, error) {
	p := &Page{files: map[string]http.Handler{}}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "README.md" || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		content, err := fs.ReadFile(built, name)
		if err != nil {
			return err
		}
		p.files["/"+name] = kept(keptFor("/"+name), static.New(media(name), content))
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if p.files[index] == nil {
		p.files = map[string]http.Handler{"/": kept("no-store", static.New(media(index), []byte(missing)))}
		return p, nil
	}
	p.built = true
	p.files["/"] = p.files[index]
	delete(p.files, index)
	return p, nil
}

// Built says whether the binary has the page.
func (p *Page) Built() bool { return p.built }

// Find is what is at a path, or nil. It answers GET and HEAD.
func (p *Page) Find(path string) http.Handler { return p.files[path] }

// keptFor says how long a browser may keep a file. One whose name says what is in
// it never changes; the others may be of another version with the next request.
func keptFor(file string) string {
	if strings.HasPrefix(file, hashed) {
		return "public, max-age=31536000, immutable"
	}
	return "no-cache"
}

func kept(how string, file http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", how)
		file.ServeHTTP(w, r)
	})
}

// media is the type of a file by its name, the same on every machine.
func media(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js", ".mjs":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".json", ".map", ".webmanifest":
		return "application/json"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	case ".png":
		return "image/png"
	case ".txt":
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}

// missing is the page of a binary that has none. It needs no script and no style.
const missing = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Tocsin</title>
</head>
<body>
<main>
<h1>Tocsin</h1>
<p>This tocsin was built without the dashboard's page. To get it, install Node.js 20.19 or 22.12 with npm,
run <code>make build</code> in the sources, and start it again.</p>
<p>What the page shows is here all the same:</p>
<ul>
<li><a href="/events/stream?replay=50">alerts, the last 50 and then live</a> (server-sent events)</li>
<li><a href="/api/alerts">alerts</a> and <a href="/api/health">the health of each service</a> (JSON)</li>
<li><code>tocsin tail</code> in a terminal</li>
</ul>
</main>
</body>
</html>
`
