package sentry

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxMemoryText is the longest text that is stored in a Memory, in bytes.
const maxMemoryText = 2 << 10

// keyOf returns the key of a sequence of parts.
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

// isNew reports whether the thing that the parts identify is sent for the first time, and
// remembers it.
func (d *decoder) isNew(parts ...string) bool { return d.memory.Keep(keyOf(parts...), "") }

// The two forms in which an SDK sends the same thing.
const (
	fromCrumb = "crumb"
	fromSpan  = "span"
)

// duplicateSpan is how far apart the times of one thing may be: its breadcrumb is made
// shortly after its span ends.
const duplicateSpan = 500 * time.Millisecond

// sentInOtherForm reports whether the same thing was sent in the other form at about the same
// time. If not, it remembers this one.
func (d *decoder) sentInOtherForm(from, app, kind, what string, at time.Time) bool {
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
		if _, seen := d.memory.Lookup(name(other, s)); seen {
			return true
		}
	}
	d.memory.Keep(name(from, slot), "")
	return false
}

// requestKey returns what identifies a request in both forms: the URL of a breadcrumb may be
// relative or lack the query.
func requestKey(n *telemetry.Network) string {
	return strings.ToUpper(n.Method) + " " + pathOf(n.URL) + " " + strconv.Itoa(n.Status)
}

// rememberPage remembers the page on which a span runs: its vitals come later and do not name
// the page. The ids of spans are random, so they suffice as keys.
func (d *decoder) rememberPage(span lenientText, page string) {
	if span != "" && page != "" && len(page) <= maxMemoryText {
		d.memory.Keep(keyOf("page", string(span)), page)
	}
}

// rememberedPage returns the page of the first span whose page is remembered, or "".
func (d *decoder) rememberedPage(spans ...lenientText) string {
	for _, s := range spans {
		if s == "" {
			continue
		}
		if page, ok := d.memory.Lookup(keyOf("page", string(s))); ok {
			return page
		}
	}
	return ""
}
