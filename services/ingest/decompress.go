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

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

const (
	// maxDecompressed is the largest body once it is decompressed, in bytes.
	maxDecompressed = 8 << 20
	// firstDecompressed is the initial size of the buffer. It doubles as needed, so a small body
	// that announces a large size costs little.
	firstDecompressed = 64 << 10
)

// decompressors are the content encodings that bodies may have.
var decompressors = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	"br":      func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
}

// decompress replaces the bytes of a compressed body, and counts them as in flight. Its
// errors are refusals.
func (h *handler) decompress(b *body) error {
	open := decompressors[b.encoding]
	if open == nil {
		return nil
	}
	broken := func(err error) error {
		return httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("the body is not %s as Content-Encoding says: %s", b.encoding, err))
	}
	from, err := open(bytes.NewReader(b.data))
	if err != nil {
		return broken(err)
	}
	buffer, n := []byte(nil), 0
	for {
		if n == len(buffer) { // reserve the bytes before decompressing them
			more := min(max(n, firstDecompressed), maxDecompressed+1-n)
			if !h.inFlight.reserve(int64(more)) {
				return h.refuseBusy("too many bytes are in flight: try again later")
			}
			b.reserved += int64(more)
			larger := make([]byte, n+more)
			copy(larger, buffer)
			buffer = larger
		}
		m, err := from.Read(buffer[n:])
		n += m
		switch {
		case n > maxDecompressed:
			return httpserve.Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d bytes once it is decompressed: send smaller batches", maxDecompressed))
		case errors.Is(err, io.EOF):
			b.data = bytes.TrimPrefix(buffer[:n], byteOrderMark)
			return nil
		case err != nil:
			return broken(err)
		}
	}
}
