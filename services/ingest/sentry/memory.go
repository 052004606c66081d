package sentry

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxKept is the longest text that a Memory is given, in bytes.
const maxKept = 2 << 10

// keyOf is the key of a sequence of parts.
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

// isNew reports whether something is sent for the first time.
func (d *decoder) isNew(parts ...string) bool { return d.memory.Keep(keyOf(parts...), "") }

// The two forms in which an SDK sends the same thing.
const (
	fromCrumb = "crumb"
	fromSpan  = "span"
)

// duplicateSpan is how far apart the times of one thing may be: its breadcrumb is made
// shortly after its span ends.
const duplicateSpan = 500 * time.Millisecond

// seenElsewhere reports whether the other form has sent the same thing at about the same
// time, and keeps that this one does.
func (d *decoder) seenElsewhere(from, app, kind, what string, at time.Time) bool {
	if at.IsZero() {
		return false
	}
	other := fromCrumb
	if from == fromCrumb {
		other = fromSpan
	}
	slot := at.UnixMilli() / duplicateSpan.Milliseconds()
	name := func(from string, slot int64) Key {
		return keyOf("twin", from, app, kind, what, strconv.FormatInt(slot, 10))
	}
	for s := slot - 1; s <= slot+1; s++ {
		if _, seen := d.memory.Recall(name(other, s)); seen {
			return true
		}
	}
	d.memory.Keep(name(from, slot), "")
	return false
}

// requestKey identifies a request in both forms: a breadcrumb may have another URL than a
// span, relative or without its query.
func requestKey(n *telemetry.Network) string {
	return strings.ToUpper(n.Method) + " " + pathOf(n.URL) + " " + strconv.Itoa(n.Status)
}

// keepPage keeps the page on which a span runs, because its vitals come later and do not
// name it. The ids of spans are random, so they suffice as keys.
func (d *decoder) keepPage(span text, page string) {
	if span != "" && page != "" && len(page) <= maxKept {
		d.memory.Keep(keyOf("page", string(span)), page)
	}
}

// pageOf is the page of the first span whose page is known.
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
