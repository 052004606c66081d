// Package convert makes an event of a cluster fit for the bus: it takes out of
// core/v1 what we publish, masks secrets in it, makes every character visible and
// cuts what is too long.
//
// It is pure. It decides nothing about whether an event is news or a fault, and
// doesn't know where the labels of the involved object come from.
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

// maxRaw bounds how much of a text is looked at, in bytes: masking costs by length,
// and an API server takes whatever size from whoever may write events.
const maxRaw = 64 << 10

// Converter makes events. It is safe for concurrent use.
type Converter struct{ mask *redact.Engine }

// New makes a converter that masks by the rules of an engine.
func New(mask *redact.Engine) Converter { return Converter{mask} }

// Event is what is published of an event. Labels are those of the involved object;
// they are not changed.
func (c Converter) Event(e *corev1.Event, labels map[string]string) *kube.Event {
	return &kube.Event{
		Namespace:       c.word(e.Namespace),
		Timestamp:       timestamp(e).UTC(),
		Type:            c.word(e.Type),
		Reason:          c.word(e.Reason),
		Message:         c.text(e.Message, kube.MaxMessage),
		Labels:          c.Labels(labels),
		InvolvedObject:  c.object(e.InvolvedObject),
		Count:           count(e),
		Component:       c.word(component(e)),
		Name:            c.word(e.Name),
		UID:             c.id(string(e.UID)),
		ResourceVersion: sanitize.Cut(sanitize.Visible(e.ResourceVersion), kube.MaxName), // the cluster's own
	}
}

// timestamp is when it happened last. Events that are told again and again have a
// series; what writes events.k8s.io alone has neither of the older times.
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

// count is how often it happened, where that is over 1.
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
		APIVersion: c.word(o.APIVersion), Kind: c.word(o.Kind), Name: c.word(o.Name), Namespace: c.word(o.Namespace), UID: c.id(string(o.UID)),
		Container: c.word(container(o.FieldPath)),
	}
}

// container is the one that a field path names: spec.containers{web}.
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

// Labels are at most kube.MaxLabels, the first by name.
func (c Converter) Labels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	kept := make(map[string]string, min(len(labels), kube.MaxLabels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if len(kept) == kube.MaxLabels {
			break
		}
		// Behind its name: a value is masked for what it is called, too.
		_, value, _ := strings.Cut(c.mask.String(name+"="+labels[name]), "=")
		kept[c.word(name)] = sanitize.Cut(sanitize.Visible(value), kube.MaxLabel)
	}
	return kept
}

// Line is a text of one line, such as an error's.
func (c Converter) Line(text string) string {
	return sanitize.Cut(c.mask.String(sanitize.Visible(bounded(text))), kube.MaxMessage)
}

// word is a text that is a name, or ought to be: of one line.
func (c Converter) word(text string) string {
	return sanitize.Cut(c.mask.String(sanitize.Visible(bounded(text))), kube.MaxName)
}

// id is a uid. A UUID stays as it is: of 40,000 one has digits like those of a payment
// card, and an object is not found by what masking leaves of its uid.
func (c Converter) id(text string) string {
	if isUUID(text) {
		return text
	}
	return c.word(text)
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

// text is fit to be stored: without secrets, visible, and of at most limit characters.
func (c Converter) text(text string, limit int) string {
	return sanitize.Cut(c.mask.String(sanitize.Strip(bounded(text))), limit)
}

func bounded(text string) string {
	if len(text) <= maxRaw {
		return text
	}
	return strings.ToValidUTF8(text[:maxRaw], "")
}
