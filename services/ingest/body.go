package ingest

import (
	"bytes"
	"context"
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

const (
	// maxBody is the largest body, in bytes.
	maxBody = 1 << 20
	// firstRead is how much room a body gets at first. Room grows with what has
	// arrived and not with what was announced: else a few slow senders could
	// hold all of it with empty hands.
	firstRead = 16 << 10
)

// body is the bytes of one request, and its share of the load.
type body struct {
	// media is its content type, encoding how it is packed; both in lower case,
	// and empty where nothing is said.
	media, encoding string

	data  []byte
	room  *[]byte
	taken int64
	load  *load
}

var byteOrderMark = []byte("\ufeff")

// rooms holds the memory of bodies that were answered. Nothing decoded points
// into it: decoding copies.
var rooms = sync.Pool{New: func() any { room := make([]byte, firstRead); return &room }}

// open reads the whole body of a request. The reply says why not, where ok is
// false. It has to be released, and is still packed.
func (h *handler) open(r *http.Request, d dialect) (b *body, refused reply, ok bool) {
	media, refused, ok := d.contentType(r)
	if !ok {
		return nil, refused, false
	}
	encoding, refused, ok := d.contentEncoding(r)
	if !ok {
		return nil, refused, false
	}
	if b, refused, ok = h.read(r); ok {
		b.media, b.encoding = media, encoding
	}
	return b, refused, ok
}

func (h *handler) read(r *http.Request) (b *body, refused reply, ok bool) {
	if r.ContentLength > maxBody {
		return nil, tooLarge(), false
	}
	if !h.load.enter() {
		return nil, h.shed("too many requests are under way: try again later"), false
	}
	b = &body{load: h.load, room: rooms.Get().(*[]byte)}
	if refused, ok = h.fill(b, r); !ok {
		b.release()
		return nil, refused, false
	}
	return b, reply{}, true
}

func (h *handler) fill(b *body, r *http.Request) (reply, bool) {
	n := 0
	for {
		if int64(n) >= b.taken { // before reading more, have it counted
			share := min(max(b.taken, firstRead), maxBody+1-b.taken)
			if r.ContentLength >= 0 {
				share = min(share, r.ContentLength+1-b.taken) // one more to see the end
			}
			share = max(share, 1)
			if !h.load.take(share) {
				return h.shed("too many bytes are under way: try again later"), false
			}
			b.taken += share
			b.grow(n)
		}
		m, err := r.Body.Read((*b.room)[n:b.taken])
		n += m
		switch {
		case n > maxBody:
			return tooLarge(), false
		case errors.Is(err, io.EOF):
			// Some editors and shells put a mark before what they write.
			b.data = bytes.TrimPrefix((*b.room)[:n], byteOrderMark)
			return reply{}, true
		case errors.Is(err, os.ErrDeadlineExceeded):
			return refuse(http.StatusRequestTimeout, fmt.Sprintf("the request did not arrive within %s", httpserve.ReadTimeout)).with("Connection", "close"), false
		case err != nil:
			return refuse(http.StatusBadRequest, "the body broke off: "+err.Error()).with("Connection", "close"), false
		}
	}
}

// grow makes room for what was taken, and keeps the first n bytes.
func (b *body) grow(n int) {
	if int64(len(*b.room)) >= b.taken {
		return
	}
	room := make([]byte, b.taken)
	copy(room, (*b.room)[:n])
	rooms.Put(b.room)
	b.room = &room
}

func (b *body) release() {
	b.load.give(b.taken)
	b.load.leave()
	rooms.Put(b.room)
	b.data, b.room = nil, nil
}

func (h *handler) shed(why string) reply {
	h.metrics.shed.Inc()
	return refuse(http.StatusTooManyRequests, why).with("Retry-After", retryAfter)
}

func tooLarge() reply {
	return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d bytes: send smaller batches", maxBody)).with("Connection", "close")
}

// contentType says which of the media types a body has. Where every one is
// taken, it is whatever is said, or nothing.
func (d dialect) contentType(r *http.Request) (string, reply, bool) {
	refused := func(what string) (string, reply, bool) {
		return "", refuse(http.StatusUnsupportedMediaType, what), false
	}
	values := r.Header.Values("Content-Type")
	if len(d.media) == 0 {
		media, _, err := mime.ParseMediaType(strings.Join(values, ""))
		if err != nil {
			media = ""
		}
		return media, reply{}, true
	}
	must := "Content-Type must be one of " + strings.Join(d.media, ", ")
	if len(values) != 1 {
		return refused(must)
	}
	got, params, err := mime.ParseMediaType(values[0])
	if err != nil {
		return refused(must)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return refused("the charset of Content-Type must be utf-8")
	}
	if !slices.Contains(d.media, got) {
		return refused(must)
	}
	return got, reply{}, true
}

// contentEncoding says how a body is packed, in lower case, or nothing.
func (d dialect) contentEncoding(r *http.Request) (string, reply, bool) {
	got := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ", ")))
	switch {
	case got == "" || got == "identity":
		return "", reply{}, true
	case !d.packed:
		return "", refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be identity: send the body uncompressed"), false
	case packings[got] == nil:
		return "", refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be one of "+strings.Join(slices.Sorted(maps.Keys(packings)), ", ")), false
	}
	return got, reply{}, true
}

// work waits for a place to decode and clean in; the function gives it back.
func (h *handler) work(ctx context.Context, d dialect) (func(), error) {
	places := h.theirs
	if d.ours {
		places = h.ours
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
