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

// report is the content of a fault without its id, its state and whether logs follow.
type report struct {
	event kube.Event
	fault kube.Fault
}

// key returns the key of a fault: the same for all faults of one kind of an object or
// container. The qualifier distinguishes faults that share a kind, such as the reason of a
// warning. A fault's id is its key, a hyphen and an episode.
func (t *Tracker) key(objectID, container, kind, qualifier string) string {
	cluster := t.uid
	if cluster == "" {
		cluster = t.cluster
	}
	sum := sha256.New()
	for _, part := range []string{cluster, objectID, container, kind, qualifier} {
		_, _ = sum.Write(append([]byte(part), 0)) // a hash never fails
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// splitID returns the key and the episode of a fault's id.
func splitID(id string) (key, episode string) {
	key, episode, _ = strings.Cut(id, "-")
	return key, episode
}

// alertEpisode returns the episode of an alert: all counts of a repeated warning share one.
func alertEpisode(episode string) string {
	episode, _, _ = strings.Cut(episode, ".")
	return episode
}

func (t *Tracker) message(r *report, id, state string) kube.Message {
	f := r.fault
	f.ID, f.State, f.Severity = id, state, kube.Severity(f.Kind)
	return kube.Message{Cluster: t.cluster, ClusterUID: t.uid, Event: &r.event, Fault: &f}
}

// momentary is a fault that is over at once, such as a crash.
type momentary struct {
	object          *object
	kind, container string
	qualifier       string // see key
	episode         string
	// describe makes the report and names the logs to read. It is called only if the
	// fault is published.
	describe func() (report, *Capture)
}

// addMomentary publishes a momentary fault, unless it was published before or the rate limit
// refuses it. It returns at most one finding.
func (t *Tracker) addMomentary(m momentary, now time.Time) []Finding {
	key := t.key(m.object.id, m.container, m.kind, m.qualifier)
	id := key + "-" + m.episode
	if t.published.Contains(id) {
		t.stats.Duplicates++
		return nil
	}
	t.published.Add(id, struct{}{})
	workload := m.object.workload()
	if m.kind == kube.Crash && t.inCrashLoop(m.object.namespace, workload, m.container) {
		return t.publishInLoop(m, key, id, now)
	}
	groupKey := key
	if workload != "" {
		groupKey = t.groupKey(m.object.namespace, workload, m.container, m.kind, m.qualifier)
	}
	if g := t.recentGroup(groupKey, m.kind, workload, now); g != nil {
		return t.joinRecent(g, m, key, id, now)
	}
	limit := t.limit(m.kind)
	if !limit.allow(now) {
		t.stats.Withheld++
		limit.omitted++
		return nil
	}
	g := t.newRecentGroup(groupKey, alertEpisode(m.episode), workload)
	return t.publishInGroup(g, m, key, id, now)
}

// publishInLoop publishes a crash of a container that is in a crash loop. The crash loop
// has the alert.
func (t *Tracker) publishInLoop(m momentary, key, id string, now time.Time) []Finding {
	if !t.limit(joinKind(m.kind)).allow(now) {
		t.stats.Withheld++
		return nil
	}
	t.stats.Grouped++
	return []Finding{t.publishMomentary(m, key, id, "", now)}
}

// joinRecent publishes a fault that joins the alert of a group. At the rate limit the alert
// counts it all the same.
func (t *Tracker) joinRecent(g *group, m momentary, key, id string, now time.Time) []Finding {
	if !t.limit(joinKind(m.kind)).allow(now) {
		t.stats.Withheld++
		g.countFault(m.object.name, now)
		t.scheduleUpdate(g, now)
		return nil
	}
	return t.publishInGroup(g, m, key, id, now)
}

func (t *Tracker) publishInGroup(g *group, m momentary, key, id string, now time.Time) []Finding {
	f := t.publishMomentary(m, key, id, g.episode, now)
	g.countFault(m.object.name, now)
	g.newest = f.Message
	limit := t.limit(m.kind)
	if f.Alert = t.raiseAlert(g, &f.Message, limit.omitted, now); f.Alert != nil {
		limit.omitted = 0
	}
	return []Finding{f}
}

// publishMomentary returns the finding of a momentary fault without its alert. The episode
// is that of the workload's alert.
func (t *Tracker) publishMomentary(m momentary, key, id, episode string, now time.Time) Finding {
	r, capture := m.describe()
	t.latest.Add(key, latestFault{id: id, at: now})
	message := t.message(&r, id, kube.StateFiring)
	message.Fault.LogsFollow = capture != nil
	if message.Fault.Workload != "" {
		message.Fault.Episode = episode
	}
	t.stats.Published++
	return Finding{Message: message, MsgID: id + "/" + kube.StateFiring, Capture: capture}
}

// onset is when a lasting fault began, zero if not known, and whether that is from the
// first list of its kind.
type onset struct {
	at      time.Time
	initial bool
}

// beginFault starts a lasting fault, which is nil at MaxOpen. It publishes the fault now or once
// the rate limit allows it.
func (t *Tracker) beginFault(out []Finding, o *object, kind string, r report, began onset, now time.Time) ([]Finding, *lasting) {
	if t.open >= MaxOpen {
		t.stats.Withheld++
		return out, nil
	}
	container := r.event.InvolvedObject.Container
	l := &lasting{object: o, key: t.key(o.id, container, kind, ""), kind: kind, container: container}
	if before, ok := t.latest.Get(l.key); ok {
		l.number = before.number
		if before.over {
			l.number++
		}
	}
	id := l.key + "-" + strconv.Itoa(l.number)
	l.message = t.message(&r, id, kube.StateFiring)
	if o.kind == KindPod && kind != kube.ImagePull {
		l.capture = t.capture(o, l.container)
	}
	l.message.Fault.LogsFollow = l.capture != nil
	o.open = append(o.open, l)
	t.open++
	t.joinGroup(l)
	limit := t.limit(kind)
	if len(l.group.members) > 1 {
		limit = t.limit(joinKind(kind))
	}
	switch {
	case began.initial && !began.at.IsZero() && began.at.Before(t.recalledSince.Add(-clockSkew)):
		// The predecessor published it longer ago than the stream keeps messages.
		l.published = true
		l.group.publishedMembers++
		t.latest.Add(l.key, latestFault{id: id, number: l.number, at: now})
		t.openAlert(l.group, &l.message)
	case limit.waiting.Len() == 0 && limit.allow(now):
		out = append(out, t.publishBegin(l, now))
	default:
		l.limit, l.element = limit, limit.waiting.PushBack(l)
		if l.group.alerted { // its alert counts it
			t.scheduleUpdate(l.group, now)
		}
	}
	return out, l
}

// publishBegin publishes the beginning of a lasting fault.
func (t *Tracker) publishBegin(l *lasting, now time.Time) Finding {
	if l.element != nil {
		l.limit.waiting.Remove(l.element)
		l.element = nil
	}
	l.published = true
	l.group.publishedMembers++
	id := l.message.Fault.ID
	t.published.Add(id, struct{}{})
	t.latest.Add(l.key, latestFault{id: id, number: l.number})
	t.stats.Published++
	m := l.message
	f := Finding{Message: m, MsgID: id + "/" + kube.StateFiring, Alert: t.raiseAlert(l.group, &m, 0, now), Capture: l.capture}
	l.capture = nil
	return f
}

// endFault ends a lasting fault and publishes that if its beginning was published. The last
// fault of the group resolves the alert.
//
// A successor recalls only published faults. So if the only published fault of a group ends
// while others wait for the rate limit, one of those is published first.
func (t *Tracker) endFault(out []Finding, l *lasting, reason string, now time.Time) []Finding {
	g := l.group
	if l.published && g.publishedMembers == 1 && len(g.members) > 1 {
		out = append(out, t.publishBegin(g.firstWaiting(), now))
	}
	t.cancelEnd(l)
	t.close(l)
	lastOfGroup := t.leaveGroup(l, now)
	if !l.published {
		l.limit.waiting.Remove(l.element)
		t.stats.Withheld++
		return out
	}
	id := l.message.Fault.ID
	t.latest.Add(l.key, latestFault{id: id, number: l.number, over: true, at: now})
	event, f := *l.message.Event, *l.message.Fault
	event.Timestamp, event.Type, event.Message = now.UTC(), kube.TypeNormal, t.clean("over: "+reason, kube.MaxMessage)
	event.Name, event.UID, event.ResourceVersion, event.Count = "", "", "", 0
	f.State, f.LogsFollow = kube.StateOver, false
	m := kube.Message{Cluster: t.cluster, ClusterUID: t.uid, Event: &event, Fault: &f}
	t.stats.Ended++
	finding := Finding{Message: m, MsgID: id + "/" + kube.StateOver}
	if lastOfGroup {
		a := t.alert(g, &m, 0)
		a.State, a.EndsAt, a.StartsAt = external.StateResolved, now.UTC(), l.message.Event.Timestamp
		a.Level = l.message.Event.Type
		finding.Alert = a
	}
	return append(out, finding)
}

// close removes a lasting fault from its object.
func (t *Tracker) close(l *lasting) {
	l.object.open = slices.DeleteFunc(l.object.open, func(o *lasting) bool { return o == l })
	t.open--
	t.forgetIfUnused(l.object)
}

// WithLogs returns the finding that adds logs to a published one: its message again, and its
// alert with an excerpt of the logs. There is no alert if that was resolved or raised again
// since, which the update would reopen, nor if it has the logs of another pod of the
// workload that are as useful.
func (t *Tracker) WithLogs(f *Finding, logs []kube.Log) Finding {
	m := f.Message
	published := *m.Fault
	published.LogsFollow = false
	m.Fault, m.Logs = &published, logs
	out := Finding{Message: m, MsgID: published.ID + "/logs"}
	if g := t.groupOfMessage(&m); g != nil && g.addLogs(&m) {
		out.Alert = t.alert(g, &g.shown, 0)
	}
	return out
}
