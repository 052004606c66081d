package fault

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Why a fault is over: that only events spoke of it, and that its container runs.
const (
	whyUnseen = "nothing more was heard of it"
	whyRuns   = "the container has run for 10 minutes"
)

// said is what is to be told of a fault: without its id, its state and whether logs
// follow.
type said struct {
	event kube.Event
	fault kube.Fault
	app   string
}

// key is the same for all faults of one kind of one object, or container; sub tells
// those apart that have a kind in common, as the reason of a warning. An id is the key,
// a hyphen and the episode.
func (b *Book) key(t *object, container, kind, sub string) string {
	cluster := b.uid
	if cluster == "" {
		cluster = b.cluster
	}
	sum := sha256.New()
	for _, part := range []string{cluster, t.uid, container, kind, sub} {
		_, _ = sum.Write(append([]byte(part), 0)) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// split is the key and the episode of an id.
func split(id string) (key, episode string) {
	key, episode, _ = strings.Cut(id, "-")
	return key, episode
}

// series is the episode, or the id, as alerts have it: a warning that counts on is the
// same again.
func series(id string) string {
	id, _, _ = strings.Cut(id, ".")
	return id
}

// spell is the episode that an alert has. Warnings of one reason come as several events
// in turn, as of a readiness and a liveness probe, or with a text that differs each time:
// until nothing was heard of the reason for some time, all are one.
func (b *Book) spell(key, episode string) string {
	if now, ok := b.latest.Peek(key); ok && now.spell != "" {
		return now.spell
	}
	return series(episode)
}

// spellOf is the spell of a warning that is told, or was, after what is known of its key.
func (b *Book) spellOf(key, episode string, now time.Time) string {
	if before, ok := b.latest.Peek(key); ok && before.spell != "" && now.Sub(before.at) < unseen {
		return before.spell
	}
	return series(episode)
}

func (b *Book) message(s *said, id, state string) kube.Message {
	f := s.fault
	f.ID, f.State, f.Severity = id, state, kube.Severity(f.Kind)
	return kube.Message{Cluster: b.cluster, ClusterUID: b.uid, Event: &s.event, Fault: &f}
}

// once tells a fault that is over with its beginning, unless it was told. What there is
// to say of it is only made where it is.
func (b *Book) once(out []Finding, t *object, kind, container, sub, episode string, now time.Time, what func() (said, *Capture)) []Finding {
	key := b.key(t, container, kind, sub)
	id := key + "-" + episode
	if b.told.Contains(id) {
		b.stats.Joined++
		return out
	}
	b.told.Add(id, struct{}{})
	room, is := kind, last{id: id, at: now}
	if kind == kube.Warning {
		is.spell = b.spellOf(key, episode, now)
		if before, ok := b.latest.Get(key); ok && before.spell == is.spell {
			room, is.logged = repeats, before.logged
		}
	}
	r := b.bucket(room)
	if !r.take(now) {
		r.omitted++
		b.stats.Withheld++
		return out
	}
	s, logs := what()
	is.logged = is.logged || logs != nil
	b.latest.Add(key, is)
	m := b.message(&s, id, kube.StateFiring)
	m.Fault.LogsFollow = logs != nil
	b.stats.Told++
	f := Finding{Message: m, MsgID: id + "/" + kube.StateFiring, Capture: logs}
	// Of what counts on, the alert has the logs already, or they come and revise it: it
	// would be without them in between.
	if room != repeats || !is.logged {
		f.Alert = b.alert(&m, s.app, r.omit())
	}
	return append(out, f)
}

// repeats is the room of warnings that count on: they take none from what is new.
const repeats = kube.Warning + " again"

func (r *bucket) omit() int {
	n := r.omitted
	r.omitted = 0
	return n
}

// opened begins a fault that lasts. since is when it began, where that is known.
func (b *Book) opened(out []Finding, t *object, kind string, s said, initial bool, since, now time.Time) ([]Finding, *lasting) {
	if b.open >= MaxOpen {
		b.stats.Withheld++
		return out, nil
	}
	l := &lasting{of: t, key: b.key(t, s.event.InvolvedObject.Container, kind, ""), kind: kind, container: s.event.InvolvedObject.Container, app: s.app, index: -1}
	if before, ok := b.latest.Get(l.key); ok {
		l.number = before.number
		if before.over {
			l.number++
		}
	}
	id := l.key + "-" + strconv.Itoa(l.number)
	l.message = b.message(&s, id, kube.StateFiring)
	if t.kind == KindPod && kind != kube.ImagePull {
		l.wanted = b.capture(t, l.container)
	}
	l.message.Fault.LogsFollow = l.wanted != nil
	t.open = append(t.open, l)
	b.open++
	r := b.bucket(kind)
	switch {
	case initial && !since.IsZero() && since.Before(b.oldest.Add(-skew)):
		// Our predecessor told it, longer ago than the stream remembers.
		l.told = true
		b.latest.Add(l.key, last{id: id, number: l.number, at: now})
	case r.waiting.Len() == 0 && r.take(now):
		out = append(out, b.begin(l))
	default:
		l.place = r.waiting.PushBack(l)
	}
	return out, l
}

// begin tells a fault that lasts.
func (b *Book) begin(l *lasting) Finding {
	l.told = true
	id := l.message.Fault.ID
	b.told.Add(id, struct{}{})
	b.latest.Add(l.key, last{id: id, number: l.number})
	b.stats.Told++
	m := l.message
	f := Finding{Message: m, MsgID: id + "/" + kube.StateFiring, Alert: b.alert(&m, l.app, b.bucket(l.kind).omit()), Capture: l.wanted}
	l.wanted = nil
	return f
}

// end tells that a fault is over, if anybody was told of it.
func (b *Book) end(out []Finding, l *lasting, why string, now time.Time) []Finding {
	b.set(l, time.Time{}, "")
	b.close(l)
	if !l.told {
		b.bucket(l.kind).waiting.Remove(l.place)
		b.stats.Withheld++
		return out
	}
	id := l.message.Fault.ID
	b.latest.Add(l.key, last{id: id, number: l.number, over: true, at: now})
	event, f := *l.message.Event, *l.message.Fault
	event.Timestamp, event.Type, event.Message = now.UTC(), kube.TypeNormal, b.text("over: "+why, kube.MaxMessage)
	event.Name, event.UID, event.ResourceVersion, event.Count = "", "", "", 0
	f.State, f.LogsFollow = kube.StateOver, false
	m := kube.Message{Cluster: b.cluster, ClusterUID: b.uid, Event: &event, Fault: &f}
	a := b.alert(&m, l.app, 0)
	a.State, a.EndsAt, a.StartsAt = external.StateResolved, now.UTC(), l.message.Event.Timestamp
	a.Level = l.message.Event.Type
	b.stats.Over++
	return append(out, Finding{Message: m, MsgID: id + "/" + kube.StateOver, Alert: a})
}

func (b *Book) close(l *lasting) {
	l.of.open = slices.DeleteFunc(l.of.open, func(o *lasting) bool { return o == l })
	b.open--
	b.drop(l.of)
}

// drop forgets an object whose state was never seen, and of which nothing is open.
func (b *Book) drop(t *object) {
	if !t.seen && len(t.open) == 0 && len(t.wanting) == 0 {
		b.forget(t)
	}
}

// Resume says how far a predecessor came: what it told since oldest is recalled, and
// it was alive at until. Without one, everything that lasts is news.
func (b *Book) Resume(oldest, until time.Time) {
	b.oldest = oldest
	if until.After(b.until) {
		b.until = until
	}
}

// Recall takes what a predecessor published, in that order and before anything else.
// Messages of no fault only say that it was alive.
func (b *Book) Recall(m *kube.Message, at time.Time) {
	if at.After(b.until) {
		b.until = at
	}
	if m.Fault == nil || m.Event == nil {
		return
	}
	key, episode := split(m.Fault.ID)
	number, err := strconv.Atoi(episode)
	o := m.Event.InvolvedObject
	lasts := err == nil && slices.Contains(lastingKinds, m.Fault.Kind)
	b.told.Add(m.Fault.ID, struct{}{})
	is := last{id: m.Fault.ID, number: number, over: m.Fault.State == kube.StateOver, at: at}
	if m.Fault.Kind == kube.Warning {
		is.spell = b.spellOf(key, episode, at)
		before, ok := b.latest.Get(key)
		is.logged = m.Fault.LogsFollow || len(m.Logs) > 0 || ok && before.spell == is.spell && before.logged
	}
	b.latest.Add(key, is)
	if m.Fault.Kind == kube.OutOfMemory && len(m.Logs) == 0 {
		b.killed.Add(identity(o), kill{at: at, event: m.Event.UID != ""})
	}
	t := b.known(o)
	firing := m.Fault.State == kube.StateFiring
	if t == nil && firing && (lasts || m.Fault.LogsFollow) {
		t = b.noted(o)
	}
	if t == nil {
		return
	}
	t.wanting = slices.DeleteFunc(t.wanting, func(w wanted) bool { return w.message.Fault.ID == m.Fault.ID })
	if firing && m.Fault.LogsFollow && len(m.Logs) == 0 && len(t.wanting) < maxWanting {
		t.wanting = append(t.wanting, wanted{m, at})
	}
	l := t.find(m.Fault.Kind, o.Container)
	switch {
	case !lasts || len(m.Logs) > 0:
		b.drop(t)
	case !firing && l != nil:
		b.set(l, time.Time{}, "")
		b.close(l)
	case firing && l == nil && b.open < MaxOpen:
		l = &lasting{
			of: t, key: key, number: number, kind: m.Fault.Kind, container: o.Container, message: *m, app: m.App(), told: true,
			killed: m.Fault.Reason == oomKilled, index: -1,
		}
		t.open = append(t.open, l)
		b.open++
		if m.Event.UID != "" { // an event told it, and perhaps nothing else will
			b.set(l, at.Add(patience(t.kind)), whyUnseen)
		}
	}
}

// maxWanting bounds for how many recalled faults of a pod the logs are asked for again.
const maxWanting = 5

// lastingKinds are the kinds of what has an end.
var lastingKinds = []string{kube.CrashLoop, kube.ImagePull, kube.NodeNotReady, kube.DeploymentStalled, kube.JobFailed}

// patience is for how long a fault lasts that events alone speak of.
func patience(kind string) time.Duration {
	if kind == KindPod {
		return unseen
	}
	return unseenLong
}

// WithLogs is what follows a finding once its logs are there: its message again, and
// its alert with what the logs say. There is no alert where another fault of the same
// kind was told meanwhile, but for a warning that counts on, or it is over: it would come
// back to life.
func (b *Book) WithLogs(f *Finding, logs []kube.Log) Finding {
	m := f.Message
	follow := *m.Fault
	follow.LogsFollow = false
	m.Fault, m.Logs = &follow, logs
	out := Finding{Message: m, MsgID: follow.ID + "/logs"}
	key, _ := split(follow.ID)
	if now, ok := b.latest.Get(key); !ok || now.id != follow.ID && now.spell == "" || now.over {
		return out
	}
	out.Alert = b.alert(&m, m.App(), 0)
	return out
}
