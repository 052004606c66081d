// Package web holds the dashboard's page and serves its files.
//
// Its sources are the TypeScript files in src. The binary embeds the files that make page
// builds of them, if it was run. The caller must check Host and Origin, and set the content
// security policy.
package web

import (
	"embed"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

//go:embed all:dist
var dist embed.FS

const (
	index = "/index.html"
	// hashedDir is the folder of the files whose names contain a hash of their content.
	hashedDir = "/assets/"
)

// Page is the page with all of its files, by their paths.
type Page struct {
	files map[string]http.Handler
	built bool
}

// Built reports whether the binary has the page.
func Built() bool {
	_, err := fs.Stat(dist, "dist"+index)
	return err == nil
}

// New returns the page that is embedded in the binary, or else a placeholder that explains
// how to get it.
func New() (*Page, error) {
	built, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, err
	}
	return newPage(built)
}

// newPage makes a page of the files in a folder.
func newPage(built fs.FS) (*Page, error) {
	p := &Page{files: map[string]http.Handler{}}
	err := fs.WalkDir(built, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "README.md" || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		content, err := fs.ReadFile(built, name)
		if err != nil {
			return err
		}
		p.files["/"+name] = withCacheControl(cacheControl("/"+name), httpserve.NewFile(contentType(name), content))
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if p.files[index] == nil {
		p.files = map[string]http.Handler{"/": withCacheControl("no-store", httpserve.NewFile(contentType(index), []byte(placeholder)))}
		return p, nil
	}
	p.built = true
	p.files["/"] = p.files[index]
	delete(p.files, index)
	return p, nil
}

// Built reports whether the page is the embedded one, and not the placeholder.
func (p *Page) Built() bool { return p.built }

// Find returns the handler of a path, for GET and HEAD, or nil.
func (p *Page) Find(path string) http.Handler { return p.files[path] }

// Paths returns the paths of all files.
func (p *Page) Paths() []string { return slices.Sorted(maps.Keys(p.files)) }

// cacheControl returns how long a browser may keep a file. A file with a hash in its name
// never changes; the others may change with the next version.
func cacheControl(file string) string {
	if strings.HasPrefix(file, hashedDir) {
		return "public, max-age=31536000, immutable"
	}
	return "no-cache"
}

func withCacheControl(value string, file http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", value)
		file.ServeHTTP(w, r)
	})
}

// contentType returns the content type of a file by its name, the same on every machine.
func contentType(name string) string {
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

// placeholder is the page of a binary that was built without the page. It needs no script
// and no style.
const placeholder = `<!doctype html>
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
<p>This build of Tocsin was built without the dashboard's page, as <code>go install</code> does. To get the page, either</p>
<ul>
<li>install a release from <a href="https://github.com/tocsin-bus/tocsin/releases">github.com/tocsin-bus/tocsin/releases</a>, or</li>
<li>clone the repository, install Node.js 20.19 or 22.12 with npm, and run <code>make build</code>;</li>
</ul>
<p>then restart <code>tocsin up</code>. Until then, the same data is here:</p>
<ul>
<li><a href="/events/stream?replay=50">the last 50 alerts, then live ones</a> (server-sent events)</li>
<li><a href="/api/alerts">alerts</a> and <a href="/api/health">the health of each service</a> (JSON)</li>
<li><code>tocsin tail</code> in a terminal</li>
</ul>
</main>
</body>
</html>
`
