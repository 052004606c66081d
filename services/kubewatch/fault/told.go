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
}

// key is the same for all faults of one kind of one object, or container; sub tells
// those apart that have a kind in common, as the reason of a warning. An id is the key,
// a hyphen and the episode.
func (b *Book) key(t *object, container, kind, sub string) string {
	return b.keyOf(t.uid, container, kind, sub)
}

func (b *Book) keyOf(uid, container, kind, sub string) string {
	cluster := b.uid
	if cluster == "" {
		cluster = b.cluster
	}
	sum := sha256.New()
	for _, part := range []string{cluster, uid, container, kind, sub} {
		_, _ = sum.Write(append([]byte(part), 0)) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// split is the key and the episode of an id.
func split(id string) (key, episode string) {
	key, episode, _ = strings.Cut(id, "-")
	return key, episode
}

// series is the episode as alerts have it: a warning that counts on is the same again.
func series(episode string) string {
	episode, _, _ = strings.Cut(episode, ".")
	return episode
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
	workload := t.workload()
	if kind == kube.Crash && b.loops(t.namespace, workload, container) {
		r := b.bucket(more(kind))
		if !r.take(now) {
			b.stats.Withheld++
			return out
		}
		f := b.onceTold(key, id, "", what, now)
		b.stats.Gathered++
		return append(out, f)
	}
	group := key
	if workload != "" {
		group = b.groupKey(t.namespace, workload, container, kind, sub)
	}
	g, r := b.spell(group, kind, workload, now), b.bucket(kind)
	if g != nil {
		r = b.bucket(more(kind))
	}
	if !r.take(now) {
		b.stats.Withheld++
		if g == nil {
			r.omitted++
		} else { // its alert counts it
			g.note(t.name.name, now)
			b.pend(g, now)
		}
		return out
	}
	if g == nil {
		g = b.begins(group, series(episode), workload)
	}
	f := b.onceTold(key, id, g.episode, what, now)
	g.note(t.name.name, now)
	g.newest = f.Message
	r = b.bucket(kind)
	if f.Alert = b.raise(g, &f.Message, r.omitted, now); f.Alert != nil {
		r.omitted = 0
	}
	return append(out, f)
}

// onceTold is a fault that is told once, within the episode of its workload's alert.
func (b *Book) onceTold(key, id, episode string, what func() (said, *Capture), now time.Time) Finding {
	s, logs := what()
	b.latest.Add(key, last{id: id, at: now})
	m := b.message(&s, id, kube.StateFiring)
	m.Fault.LogsFollow = logs != nil
	if m.Fault.Workload != "" {
		m.Fault.Episode = episode
	}
	b.stats.Told++
	return Finding{Message: m, MsgID: id + "/" + kube.StateFiring, Capture: logs}
}

// more is the room of what joins an alert that was told: it takes none from what is news.
func more(kind string) string { return kind + " again" }

// opened begins a fault that lasts. since is when it began, where that is known.
func (b *Book) opened(out []Finding, t *object, kind string, s said, initial bool, since, now time.Time) ([]Finding, *lasting) {
	if b.open >= MaxOpen {
		b.stats.Withheld++
		return out, nil
	}
	l := &lasting{of: t, key: b.key(t, s.event.InvolvedObject.Container, kind, ""), kind: kind, container: s.event.InvolvedObject.Container, index: -1}
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
	b.join(l)
	r := b.bucket(kind)
	if len(l.group.members) > 1 {
		r = b.bucket(more(kind))
	}
	switch {
	case initial && !since.IsZero() && since.Before(b.oldest.Add(-skew)):
		// Our predecessor told it, longer ago than the stream remembers.
		l.told = true
		l.group.told++
		b.latest.Add(l.key, last{id: id, number: l.number, at: now})
		b.opens(l.group, &l.message)
	case r.waiting.Len() == 0 && r.take(now):
		out = append(out, b.begin(l, now))
	default:
		l.room, l.place = r, r.waiting.PushBack(l)
		if l.group.open { // its alert counts it
			b.pend(l.group, now)
		}
	}
	return out, l
}

// begin tells a fault that lasts.
func (b *Book) begin(l *lasting, now time.Time) Finding {
	if l.place != nil {
		l.room.waiting.Remove(l.place)
		l.place = nil
	}
	l.told = true
	l.group.told++
	id := l.message.Fault.ID
	b.told.Add(id, struct{}{})
	b.latest.Add(l.key, last{id: id, number: l.number})
	b.stats.Told++
	m := l.message
	f := Finding{Message: m, MsgID: id + "/" + kube.StateFiring, Alert: b.raise(l.group, &m, 0, now), Capture: l.wanted}
	l.wanted = nil
	return f
}

// end tells that a fault is over, if anybody was told of it. Its alert is over with the
// last fault of the workload: who comes after us knows those that were told, so the last
// one of them has one that waits told before it goes.
func (b *Book) end(out []Finding, l *lasting, why string, now time.Time) []Finding {
	g := l.group
	if l.told && g.told == 1 && len(g.members) > 1 {
		out = append(out, b.begin(g.waits(), now))
	}
	b.set(l, time.Time{}, "")
	b.close(l)
	over := b.leave(l, now)
	if !l.told {
		l.room.waiting.Remove(l.place)
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
	b.stats.Over++
	end := Finding{Message: m, MsgID: id + "/" + kube.StateOver}
	if over {
		a := b.alert(g, &m, 0)
		a.State, a.EndsAt, a.StartsAt = external.StateResolved, now.UTC(), l.message.Event.Timestamp
		a.Level = l.message.Event.Type
		end.Alert = a
	}
	return append(out, end)
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
	// Logs may come after the end, and say nothing of that.
	if len(m.Logs) == 0 || !b.latest.Contains(key) {
		b.latest.Add(key, last{id: m.Fault.ID, number: number, over: m.Fault.State == kube.StateOver, at: at})
	}
	if !lasts {
		b.recalled(m, at)
	}
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
	case !lasts:
		b.drop(t)
	case len(m.Logs) > 0:
		if g := b.belongs(m); g != nil {
			g.logs(m)
		}
		b.drop(t)
	case !firing && l != nil:
		b.set(l, time.Time{}, "")
		b.close(l)
		b.leave(l, at)
	case firing && l == nil && b.open < MaxOpen:
		l = &lasting{
			of: t, key: key, number: number, kind: m.Fault.Kind, container: o.Container, message: *m, told: true,
			killed: m.Fault.Reason == oomKilled, index: -1,
		}
		b.join(l)
		l.group.told++
		if !l.group.open {
			b.opens(l.group, m)
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
// its alert with what the logs say. There is no alert where that is over, or told anew
// meanwhile: it would come back to life. Nor is there where the alert has the logs of
// another pod of the workload, which say as much.
func (b *Book) WithLogs(f *Finding, logs []kube.Log) Finding {
	m := f.Message
	follow := *m.Fault
	follow.LogsFollow = false
	m.Fault, m.Logs = &follow, logs
	out := Finding{Message: m, MsgID: follow.ID + "/logs"}
	if g := b.belongs(&m); g != nil && g.logs(&m) {
		out.Alert = b.alert(g, &g.face, 0)
	}
	return out
}
