package sentry

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxKept is the longest text that a Memory is asked to keep, in bytes.
const maxKept = 2 << 10

// keyOf names a thing by its parts, which are kept apart.
func keyOf(parts ...string) Key {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var k Key
	copy(k[:], h.Sum(nil))
	return k
}

// fresh reports whether something is told for the first time.
func (d *decoder) fresh(parts ...string) bool { return d.memory.Keep(keyOf(parts...), "") }

// The two ways in which an SDK tells of the same thing.
const (
	byCrumb = "crumb"
	bySpan  = "span"
)

// twinSpan is how far apart the two times of one thing may be: a span ends, and
// its breadcrumb is made a little later.
const twinSpan = 500 * time.Millisecond

// twin reports whether the other way has told of the same thing about the same
// time, and keeps that this way does.
func (d *decoder) twin(way, app, kind, what string, at time.Time) bool {
	if at.IsZero() {
		return false
	}
	other := byCrumb
	if way == byCrumb {
		other = bySpan
	}
	slot := at.UnixMilli() / twinSpan.Milliseconds()
	name := func(way string, slot int64) Key {
		return keyOf("twin", way, app, kind, what, strconv.FormatInt(slot, 10))
	}
	for s := slot - 1; s <= slot+1; s++ {
		if _, told := d.memory.Recall(name(other, s)); told {
			return true
		}
	}
	d.memory.Keep(name(way, slot), "")
	return false
}

// called is what a request is told apart by, whoever tells of it: breadcrumbs
// may have another URL than spans, relative or without its query.
func called(n *telemetry.Network) string {
	return strings.ToUpper(n.Method) + " " + pathOf(n.URL) + " " + strconv.Itoa(n.Status)
}

// opened keeps the page on which a span runs: its vitals come later, and don't
// name it. The ids of spans are random, and alone tell them apart.
func (d *decoder) opened(span text, page string) {
	if span != "" && page != "" && len(page) <= maxKept {
		d.memory.Keep(keyOf("page", string(span)), page)
	}
}

// pageOf is the page of the first of the spans of which it is known.
func (d *decoder) pageOf(spans ...text) string {
	for _, s := range spans {
		if s == "" {
			continue
		}
		if page, ok := d.memory.Recall(keyOf("page", string(s))); ok {
			return page
		}
	}
	return ""
}
