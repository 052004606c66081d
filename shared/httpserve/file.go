package httpserve

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// File is a file that is embedded in the binary, served for GET and HEAD with an ETag and, if
// the browser accepts gzip, compressed. The caller checks access and sets Cache-Control.
type File struct {
	mediaType     string
	plain, zipped variant
}

// variant is the file in one content encoding.
type variant struct {
	tag  string // value of ETag
	body []byte
}

// minZipped is the smallest file, in bytes, that is compressed.
const minZipped = 512

// NewFile returns a file with a media type. It compresses the content once, unless it is small
// or does not get smaller.
func NewFile(mediaType string, content []byte) *File {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:8])
	f := &File{mediaType: mediaType, plain: variant{`"` + name + `"`, content}}
	if len(content) >= minZipped {
		if zipped := Gzip(content); len(zipped) < len(content) {
			f.zipped = variant{`"` + name + `-gzip"`, zipped}
		}
	}
	return f
}

// ServeHTTP answers with the file, or with 304 if the browser has it.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	answer := f.plain
	if f.zipped.body != nil {
		header.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Values("Accept-Encoding")) {
			answer = f.zipped
		}
	}
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Etag", answer.tag)
	if f.isCached(r.Header.Values("If-None-Match")) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", f.mediaType)
	header.Set("Content-Length", strconv.Itoa(len(answer.body)))
	if answer.tag == f.zipped.tag {
		header.Set("Content-Encoding", "gzip")
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(answer.body) // the browser has disconnected
	}
}

// isCached reports whether the browser has the file, in either encoding.
func (f *File) isCached(ifNoneMatch []string) bool {
	for tag := range listElements(ifNoneMatch) {
		tag = strings.TrimPrefix(tag, "W/")
		if tag == "*" || tag != "" && (tag == f.plain.tag || tag == f.zipped.tag) {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether Accept-Encoding allows gzip (RFC 9110, section 12.5.3).
func acceptsGzip(values []string) bool {
	for element := range listElements(values) {
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

// listElements yields the comma-separated elements of a header, which may be repeated.
func listElements(values []string) func(yield func(string) bool) {
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

// Gzip compresses data as small as gzip can, for data that is compressed once and sent often.
func Gzip(data []byte) []byte {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the level is valid, and memory accepts all writes
	}
	return zipped.Bytes()
}
