package ingest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/andybalholm/brotli"
)

const (
	// maxUnpacked is the largest body once it is unpacked, in bytes.
	maxUnpacked = 8 << 20
	// firstUnpacked is how much room unpacking takes at first. Room doubles with
	// what has come out, so a small body that claims much costs little.
	firstUnpacked = 64 << 10
)

// packings are the content encodings that bodies may come in.
var packings = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"br":      func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
}

// unpack replaces the bytes of a body that came compressed by what they stand
// for, and counts them as under way. The reply says why not, where ok is false.
func (h *handler) unpack(b *body) (refused reply, ok bool) {
	open := packings[b.encoding]
	if open == nil {
		return reply{}, true
	}
	broken := func(err error) (reply, bool) {
		return refuse(http.StatusBadRequest, fmt.Sprintf("the body is not %s as Content-Encoding says: %s", b.encoding, err)), false
	}
	from, err := open(bytes.NewReader(b.data))
	if err != nil {
		return broken(err)
	}
	room, n := []byte(nil), 0
	for {
		if n == len(room) { // before unpacking more, have it counted
			share := min(max(n, firstUnpacked), maxUnpacked+1-n)
			if !h.load.take(int64(share)) {
				return h.shed("too many bytes are under way: try again later"), false
			}
			b.taken += int64(share)
			more := make([]byte, n+share)
			copy(more, room)
			room = more
		}
		m, err := from.Read(room[n:])
		n += m
		switch {
		case n > maxUnpacked:
			return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d bytes once it is unpacked: send smaller batches", maxUnpacked)), false
		case errors.Is(err, io.EOF):
			b.data = bytes.TrimPrefix(room[:n], byteOrderMark)
			return reply{}, true
		case err != nil:
			return broken(err)
		}
	}
}
