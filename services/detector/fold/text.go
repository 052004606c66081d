package fold

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// idLen is the length of an alert's id, in characters of 5 bits.
	idLen = 26
	// maxApp bounds an app's name, in bytes.
	maxApp = rule.MaxKey
	// maxText bounds every other text of an alert, in characters.
	maxText = alert.MaxDetail
)

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// nextID returns the id of the next alert: a hash of the position in the log and the
// partition, so that a replay gives the same id.
func (t *turn) nextID() string {
	position := make([]byte, 32, 64)
	binary.BigEndian.PutUint64(position[0:], t.seq)
	binary.BigEndian.PutUint64(position[8:], uint64(t.stamp.UnixNano()))
	binary.BigEndian.PutUint64(position[16:], uint64(t.index))
	binary.BigEndian.PutUint64(position[24:], uint64(t.ordinal))
	position = append(position, t.fold.cfg.Partition...)
	sum := sha256.Sum256(position)
	return idEncoding.EncodeToString(sum[:])[:idLen]
}

// appName returns the name of an event's app, which may be missing or too long.
func appName(name string) string {
	switch {
	case name == "":
		return telemetry.DefaultApp
	case len(name) > maxApp:
		return strings.ToValidUTF8(string(rule.Bounded([]byte(name))), "")
	default:
		return name
	}
}

// clean sanitizes and shortens every text of an alert. Most texts quote what senders wrote.
func clean(a *alert.Alert) {
	a.Title = sanitize.Cut(sanitize.Visible(a.Title), alert.MaxTitle)
	a.Detail = sanitize.Cut(sanitize.Visible(a.Detail), alert.MaxDetail)
	a.App = sanitize.Visible(a.App)
	a.URL = sanitize.Cut(sanitize.Visible(a.URL), maxText)
	a.DedupKey = sanitize.Visible(a.DedupKey)
	for name, value := range a.Context {
		a.Context[name] = cleanValue(value)
	}
}

func cleanValue(value any) any {
	switch v := value.(type) {
	case string:
		return sanitize.Cut(sanitize.Visible(v), maxText)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = cleanValue(v[name])
		}
	}
	return value
}
