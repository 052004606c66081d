package fault

import (
	"slices"
	"strconv"
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// maxMissingLogs is for how many recalled faults of a pod the logs are read again.
const maxMissingLogs = 5

// lastingKinds are the kinds of lasting faults.
var lastingKinds = []string{kube.CrashLoop, kube.ImagePull, kube.NodeNotReady, kube.DeploymentStalled, kube.JobFailed}

// Resume sets the extent of the recalled messages: they go back to recalledSince, and the
// predecessor was alive at watchedUntil. Without Resume and Recall every lasting fault is
// new.
func (t *Tracker) Resume(recalledSince, watchedUntil time.Time) {
	t.recalledSince = recalledSince
	t.seenAlive(watchedUntil)
}

func (t *Tracker) seenAlive(at time.Time) {
	if at.After(t.watchedUntil) {
		t.watchedUntil = at
	}
}

// Recall takes a message that a predecessor published, in their order and before anything
// else. A message without a fault only shows that the predecessor was alive.
func (t *Tracker) Recall(m *kube.Message, at time.Time) {
	t.seenAlive(at)
	if m.Fault == nil || m.Event == nil {
		return
	}
	key, episode := splitID(m.Fault.ID)
	number, err := strconv.Atoi(episode)
	isLasting := err == nil && slices.Contains(lastingKinds, m.Fault.Kind)
	ref := m.Event.InvolvedObject
	t.published.Add(m.Fault.ID, struct{}{})
	// Logs may be published after the end of the fault, which they must not undo.
	if len(m.Logs) == 0 || !t.latest.Contains(key) {
		t.latest.Add(key, latestFault{id: m.Fault.ID, number: number, over: m.Fault.State == kube.StateOver, at: at})
	}
	if !isLasting {
		t.recallMomentary(m, at)
	}
	if m.Fault.Kind == kube.OutOfMemory && len(m.Logs) == 0 {
		t.oomKills.Add(objectID(ref), oomKill{at: at, unconfirmed: m.Event.UID != ""})
	}
	o := t.find(ref)
	if o == nil && m.Fault.State == kube.StateFiring && (isLasting || m.Fault.LogsFollow) {
		o = t.findOrAdd(ref)
	}
	if o == nil {
		return
	}
	o.recallLogs(m, at)
	if isLasting {
		t.recallLasting(o, m, recalledKey{key, number}, at)
		return
	}
	t.forgetIfUnused(o)
}

// recallLogs updates for which faults of an object the logs are missing.
func (o *object) recallLogs(m *kube.Message, at time.Time) {
	o.missingLogs = slices.DeleteFunc(o.missingLogs, func(f recalledFault) bool { return f.message.Fault.ID == m.Fault.ID })
	if m.Fault.State == kube.StateFiring && m.Fault.LogsFollow && len(m.Logs) == 0 && len(o.missingLogs) < maxMissingLogs {
		o.missingLogs = append(o.missingLogs, recalledFault{m, at})
	}
}

// recalledKey is the id of a recalled lasting fault.
type recalledKey struct {
	key    string
	number int
}

// recallLasting takes a message about a lasting fault: its beginning, its end or its logs.
func (t *Tracker) recallLasting(o *object, m *kube.Message, id recalledKey, at time.Time) {
	container := m.Event.InvolvedObject.Container
	l, firing := o.openFault(m.Fault.Kind, container), m.Fault.State == kube.StateFiring
	switch {
	case len(m.Logs) > 0:
		if g := t.groupOfMessage(m); g != nil {
			g.addLogs(m)
		}
		t.forgetIfUnused(o)
	case !firing && l != nil:
		t.cancelEnd(l)
		t.close(l)
		t.leaveGroup(l, at)
	case firing && l == nil && t.open < MaxOpen:
		l = &lasting{
			object: o, key: id.key, number: id.number, kind: m.Fault.Kind, container: container, message: *m, published: true,
			oomKilled: m.Fault.Reason == oomKilled,
		}
		t.joinGroup(l)
		l.group.publishedMembers++
		if !l.group.alerted {
			t.openAlert(l.group, m)
		}
		o.open = append(o.open, l)
		t.open++
		if m.Event.UID != "" { // it was reported by an event; there may never be a state
			t.scheduleEnd(l, at.Add(lifetimeOfEvents(o.kind)), noMoreEvents)
		}
	}
}

// recallMomentary takes a message about a momentary fault: the fault or its logs.
func (t *Tracker) recallMomentary(m *kube.Message, at time.Time) {
	f := m.Fault
	key := t.groupKeyOf(m)
	episode := f.Episode
	switch {
	case f.Workload != "" && episode == "": // published within a crash loop
		return
	case len(m.Logs) > 0:
		if g := t.groupOfMessage(m); g != nil {
			g.addLogs(m)
		}
		return
	case episode == "":
		_, episode = splitID(f.ID)
		episode = alertEpisode(episode)
	}
	g := t.recentGroup(key, f.Kind, f.Workload, at)
	if g == nil || f.Workload != "" && g.episode != episode {
		g = t.newRecentGroup(key, episode, f.Workload)
	}
	g.countFault(m.Event.InvolvedObject.Name, at)
	g.alerted, g.shown, g.newest = true, *m, *m
}
