// Package convert converts a core/v1 event for the bus: it selects the published fields,
// masks secrets, makes every character visible and cuts what is too long.
//
// It is pure. It does not decide whether an event is new or a fault.
package convert

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// maxRaw bounds the part of a text that is examined, in bytes: the cost of masking grows
// with the length, and an API server accepts any length from those who may write events.
const maxRaw = 64 << 10

// Converter converts events. It is safe for concurrent use.
type Converter struct{ mask *redact.Engine }

// New returns a converter that masks with an engine.
func New(mask *redact.Engine) Converter { return Converter{mask} }

// Event returns the published form of an event. Labels are those of the involved object;
// they are not modified.
func (c Converter) Event(e *corev1.Event, labels map[string]string) *kube.Event {
	return &kube.Event{
		Namespace:       c.name(e.Namespace),
		Timestamp:       timestamp(e).UTC(),
		Type:            c.name(e.Type),
		Reason:          c.name(e.Reason),
		Message:         c.text(e.Message, kube.MaxMessage),
		Labels:          c.Labels(labels),
		InvolvedObject:  c.object(e.InvolvedObject),
		Count:           count(e),
		Component:       c.name(component(e)),
		Name:            c.name(e.Name),
		UID:             c.id(string(e.UID)),
		ResourceVersion: sanitize.Cut(sanitize.Visible(e.ResourceVersion), kube.MaxName), // set by the cluster, not masked
	}
}

// timestamp returns when the event last happened. Repeated events may have a series; events
// of clients that use only events.k8s.io have neither of the older times.
func timestamp(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

// count returns how often the event happened if that is more than once, else 0.
func count(e *corev1.Event) int {
	n := int(e.Count)
	if e.Series != nil {
		n = max(n, int(e.Series.Count))
	}
	if n <= 1 {
		return 0
	}
	return n
}

func component(e *corev1.Event) string {
	if e.ReportingController != "" {
		return e.ReportingController
	}
	return e.Source.Component
}

func (c Converter) object(o corev1.ObjectReference) kube.Object {
	return kube.Object{
		APIVersion: c.name(o.APIVersion), Kind: c.name(o.Kind), Name: c.name(o.Name), Namespace: c.name(o.Namespace), UID: c.id(string(o.UID)),
		Container: c.name(container(o.FieldPath)),
	}
}

// container returns the container in a field path such as spec.containers{web}.
func container(path string) string {
	for _, kind := range []string{"spec.containers{", "spec.initContainers{", "spec.ephemeralContainers{"} {
		if rest, is := strings.CutPrefix(path, kind); is {
			if name, closed := strings.CutSuffix(rest, "}"); closed {
				return name
			}
		}
	}
	return ""
}

// Labels returns at most kube.MaxLabels labels, the first by name.
func (c Converter) Labels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	kept := make(map[string]string, min(len(labels), kube.MaxLabels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if len(kept) == kube.MaxLabels {
			break
		}
		// The mask needs the name, because some names mean that the value is a secret.
		_, value, _ := strings.Cut(c.mask.String(name+"="+labels[name]), "=")
		kept[c.name(name)] = sanitize.Cut(sanitize.Visible(value), kube.MaxLabel)
	}
	return kept
}

// Line returns text of one line, such as an error.
func (c Converter) Line(text string) string {
	return sanitize.Cut(c.mask.String(sanitize.Visible(truncate(text))), kube.MaxMessage)
}

// name returns a text that should be a name, without secrets and in one line.
func (c Converter) name(text string) string {
	return sanitize.Cut(c.mask.String(sanitize.Visible(truncate(text))), kube.MaxName)
}

// id returns a uid. A UUID is not masked: the digits of one UUID in 40,000
// look like those of a payment card, and a masked uid identifies no object.
func (c Converter) id(text string) string {
	if isUUID(text) {
		return text
	}
	return c.name(text)
}

func isUUID(text string) bool {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(form) {
		return false
	}
	for i := range len(form) {
		hex := text[i] >= '0' && text[i] <= '9' || text[i] >= 'a' && text[i] <= 'f'
		if hex != (form[i] == 'x') || !hex && text[i] != '-' {
			return false
		}
	}
	return true
}

// text returns a text of several lines, without secrets, visible, and of at most limit
// characters.
func (c Converter) text(text string, limit int) string {
	return sanitize.Cut(c.mask.String(sanitize.Strip(truncate(text))), limit)
}

func truncate(text string) string {
	if len(text) <= maxRaw {
		return text
	}
	return strings.ToValidUTF8(text[:maxRaw], "")
}
