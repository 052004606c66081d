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
	// firstRead is the initial size of a buffer. It grows with the bytes that have arrived, not
	// with Content-Length: otherwise a few slow senders could reserve all memory.
	firstRead = 16 << 10
)

// bodyFormat describes the bodies that a sender may send.
type bodyFormat struct {
	// media are the accepted content types. Empty: any, because the body alone shows its
	// format.
	media []string
	// allowUntyped accepts bodies without a content type.
	allowUntyped bool
	// allowCompressed accepts compressed bodies.
	allowCompressed bool
	// isNative is set if the format is Tocsin's own.
	isNative bool
}

// body is the body of one request, and its share of the bytes in flight.
type body struct {
	// media is the content type, encoding the compression, in lower case. Both may be empty.
	media, encoding string

	data     []byte
	buffer   *[]byte
	reserved int64
	inFlight *inFlight
}

var byteOrderMark = []byte("\ufeff")

// buffers has the buffers of finished requests. Decoding copies, so nothing decoded refers to
// them.
var buffers = sync.Pool{New: func() any { buffer := make([]byte, firstRead); return &buffer }}

// readBody reads the whole body of a request, and leaves it compressed. Its errors are refusals.
// The caller must release the body.
func (h *handler) readBody(r *http.Request, accepted bodyFormat) (*body, error) {
	media, err := accepted.contentType(r)
	if err != nil {
		return nil, err
	}
	encoding, err := accepted.contentEncoding(r)
	if err != nil {
		return nil, err
	}
	b, err := h.startBody(r)
	if err != nil {
		return nil, err
	}
	b.media, b.encoding = media, encoding
	return b, nil
}

func (h *handler) startBody(r *http.Request) (*body, error) {
	if r.ContentLength > maxBody {
		return nil, tooLarge()
	}
	if !h.inFlight.enter() {
		return nil, h.refuseBusy("too many requests are in flight: try again later")
	}
	b := &body{inFlight: h.inFlight, buffer: buffers.Get().(*[]byte)}
	if err := h.readBytes(b, r); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (h *handler) readBytes(b *body, r *http.Request) error {
	n := 0
	for {
		if int64(n) >= b.reserved { // reserve the bytes before reading them
			more := min(max(b.reserved, firstRead), maxBody+1-b.reserved)
			if r.ContentLength >= 0 {
				more = min(more, r.ContentLength+1-b.reserved) // one more to see the end
			}
			more = max(more, 1)
			if !h.inFlight.reserve(more) {
				return h.refuseBusy("too many bytes are in flight: try again later")
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

// refuseBusy returns the refusal of a request because too many others are in flight.
func (h *handler) refuseBusy(message string) *httpserve.Refusal {
	h.metrics.shed.Inc()
	return httpserve.Refuse(http.StatusTooManyRequests, message).Retry(httpserve.RetryAfter)
}

func tooLarge() *httpserve.Refusal { return httpserve.BodyTooLarge(maxBody, "send smaller batches") }

// contentType returns the media type of a body. If any is accepted, it may be empty.
func (a bodyFormat) contentType(r *http.Request) (string, error) {
	refuse := func(message string) (string, error) {
		return "", httpserve.Refuse(http.StatusUnsupportedMediaType, message)
	}
	values := r.Header.Values("Content-Type")
	if len(a.media) == 0 || a.allowUntyped && r.Header.Get("Content-Type") == "" {
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

// contentEncoding returns the compression of a body in lower case, or "" for none.
func (a bodyFormat) contentEncoding(r *http.Request) (string, error) {
	got := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ", ")))
	switch {
	case got == "" || got == "identity":
		return "", nil
	case !a.allowCompressed:
		return "", httpserve.Refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be identity: send the body uncompressed")
	case decompressors[got] == nil:
		return "", httpserve.Refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be one of "+strings.Join(slices.Sorted(maps.Keys(decompressors)), ", "))
	}
	return got, nil
}
