package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// Media types of bodies.
const (
	typeJSON     = "application/json"
	typeNDJSON   = "application/x-ndjson"
	typeText     = "text/plain"
	typeProtobuf = "application/x-protobuf"
)

const (
	// maxBody is the largest body, in bytes.
	maxBody = 1 << 20
	// firstRead is the size of a buffer at first. It grows with what has arrived, not with
	// what was announced: else a few slow senders could hold all memory with empty hands.
	firstRead = 16 << 10
)

// bodies is which bodies a sender may send.
type bodies struct {
	// media are the accepted content types. Empty: any, because the body alone shows its
	// format.
	media []string
	// untyped: the content type may be missing.
	untyped bool
	// compressed: bodies may come compressed.
	compressed bool
	// native: the format is Tocsin's own.
	native bool
}

// body is the bytes of one request, and what they take of the bytes in flight.
type body struct {
	// media is the content type, encoding the compression; both in lower case, and empty
	// where the sender names none.
	media, encoding string

	data     []byte
	buffer   *[]byte
	reserved int64
	inFlight *inFlight
}

var byteOrderMark = []byte("\ufeff")

// buffers holds the memory of bodies that were answered. Nothing decoded points into it:
// decoding copies.
var buffers = sync.Pool{New: func() any { buffer := make([]byte, firstRead); return &buffer }}

// open reads the whole body of a request, still compressed. Its errors are refusals. The
// body has to be released.
func (h *handler) open(r *http.Request, accepted bodies) (*body, error) {
	media, err := accepted.contentType(r)
	if err != nil {
		return nil, err
	}
	encoding, err := accepted.contentEncoding(r)
	if err != nil {
		return nil, err
	}
	b, err := h.read(r)
	if err != nil {
		return nil, err
	}
	b.media, b.encoding = media, encoding
	return b, nil
}

func (h *handler) read(r *http.Request) (*body, error) {
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	if !h.inFlight.enter() {
		return nil, h.shed("too many requests are under way: try again later")
	}
	b := &body{inFlight: h.inFlight, buffer: buffers.Get().(*[]byte)}
	if err := h.fill(b, r); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (h *handler) fill(b *body, r *http.Request) error {
	n := 0
	for {
		if int64(n) >= b.reserved { // before reading more, reserve its room
			more := min(max(b.reserved, firstRead), maxBody+1-b.reserved)
			if r.ContentLength >= 0 {
				more = min(more, r.ContentLength+1-b.reserved) // one more to see the end
			}
			more = max(more, 1)
			if !h.inFlight.reserve(more) {
				return h.shed("too many bytes are under way: try again later")
			}
			b.reserved += more
			b.grow(n)
		}
		m, err := r.Body.Read((*b.buffer)[n:b.reserved])
		n += m
		switch {
		case n > maxBody:
			return tooLarge()
		case errors.Is(err, io.EOF):
			// Some editors and shells put a mark before what they write.
			b.data = bytes.TrimPrefix((*b.buffer)[:n], byteOrderMark)
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return httpserve.Refuse(http.StatusRequestTimeout, fmt.Sprintf("the request did not arrive within %s", httpserve.ReadTimeout)).With("Connection", "close")
		case err != nil:
			return httpserve.BodyBroken(err)
		}
	}
}

// grow makes room for the bytes that are reserved, and keeps the first n.
func (b *body) grow(n int) {
	if int64(len(*b.buffer)) >= b.reserved {
		return
	}
	buffer := make([]byte, b.reserved)
	copy(buffer, (*b.buffer)[:n])
	buffers.Put(b.buffer)
	b.buffer = &buffer
}

func (b *body) release() {
	b.inFlight.free(b.reserved)
	b.inFlight.leave()
	buffers.Put(b.buffer)
	b.data, b.buffer = nil, nil
}

// shed refuses a request because of those under way.
func (h *handler) shed(message string) *httpserve.Refusal {
	h.metrics.shed.Inc()
	return httpserve.Refuse(http.StatusTooManyRequests, message).Retry(httpserve.RetryAfter)
}

func tooLarge() *httpserve.Refusal { return httpserve.BodyTooLarge(maxBody, "send smaller batches") }

// contentType returns which of the accepted media types a body has. Where any is
// accepted, it is the one that the request names, or empty.
func (a bodies) contentType(r *http.Request) (string, error) {
	refuse := func(message string) (string, error) {
		return "", httpserve.Refuse(http.StatusUnsupportedMediaType, message)
	}
	values := r.Header.Values("Content-Type")
	if len(a.media) == 0 || a.untyped && r.Header.Get("Content-Type") == "" {
		media, _, err := mime.ParseMediaType(strings.Join(values, ""))
		if err != nil {
			media = ""
		}
		return media, nil
	}
	must := "Content-Type must be one of " + strings.Join(a.media, ", ")
	if len(values) != 1 {
		return refuse(must)
	}
	got, params, err := mime.ParseMediaType(values[0])
	if err != nil {
		return refuse(must)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return refuse("the charset of Content-Type must be utf-8")
	}
	if !slices.Contains(a.media, got) {
		return refuse(must)
	}
	return got, nil
}

// contentEncoding returns how a body is compressed, in lower case, or nothing.
func (a bodies) contentEncoding(r *http.Request) (string, error) {
	got := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ", ")))
	switch {
	case got == "" || got == "identity":
		return "", nil
	case !a.compressed:
		return "", httpserve.Refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be identity: send the body uncompressed")
	case decompressors[got] == nil:
		return "", httpserve.Refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be one of "+strings.Join(slices.Sorted(maps.Keys(decompressors)), ", "))
	}
	return got, nil
}
