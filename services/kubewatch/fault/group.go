package fault

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Alerts go by workload, faults by pod: a release that fails in 500 pods is 500 faults
// on the stream, and one alert.
const (
	// MaxGroups is how many alerts are remembered of what is over with its beginning.
	// Past it, the one heard of longest ago is forgotten: what is told of it next is news.
	MaxGroups = 10_000
	// Gather is how long an alert is not told again after it was told first, whatever joins
	// it. Each time after that it is twice as long, up to MaxGather: an alert is told about
	// 7 times in its first 10 minutes, however many pods it is of.
	Gather    = 5 * time.Second
	MaxGather = 5 * time.Minute
	// maxNamed is how many pods an alert names.
	maxNamed = 3
)

// group is what is told as one alert: what is wrong in one way with a container of the
// pods of a workload, or with an object that is its own. What lasts is one while any pod
// has it, the rest while the next comes within some time.
type group struct {
	key, episode string
	// number is the episode of what lasts.
	number int
	// workload is empty where the object is its own.
	workload string
	// members are its faults that last, also those that wait for room, in the order in
	// which they began; told is how many of them were told, most how many there were at once.
	members    []*lasting
	told, most int
	// open says that its alert was told.
	open bool
	// times is how many faults there were of what is over with its beginning, pods are the
	// first pods of them, and others says that there were more. at is when the newest was.
	times  int
	pods   []string
	others bool
	at     time.Time
	// face is the fault that the alert shows, newest the one that it will show next.
	face, newest kube.Message
	// line is what the logs say, those of the fault logsOf, and panics that it is the mark
	// of a panic.
	line, logsOf string
	panics       bool
	// next is when the alert may be told again, and wait how long that was.
	next time.Time
	wait time.Duration
	// due is when it is told again, and index its place among those that are, -1 without.
	due   time.Time
	index int
}

// groupKey is the same for all faults of one kind of a workload's pods, or container; see key.
func (b *Book) groupKey(namespace, workload, container, kind, sub string) string {
	return b.keyOf("workload/"+namespace+"/"+workload, container, kind, sub)
}

// groupOf is the key of the alert that a fault belongs to.
func (b *Book) groupOf(m *kube.Message) string {
	if m.Fault.Workload == "" {
		key, _ := split(m.Fault.ID)
		return key
	}
	sub, o := "", m.Event.InvolvedObject
	if m.Fault.Kind == kube.Warning {
		sub = m.Event.Reason
	}
	return b.groupKey(o.Namespace, m.Fault.Workload, o.Container, m.Fault.Kind, sub)
}

// workload is what the object is a pod of, empty where it is none's or isn't known.
func (t *object) workload() string {
	if t.pod == nil {
		return ""
	}
	return t.pod.Workload
}

// join takes a fault that lasts into its group.
func (b *Book) join(l *lasting) {
	key := b.groupOf(&l.message)
	g := b.groups[key]
	if g == nil {
		g = &group{key: key, workload: l.message.Fault.Workload, index: -1}
		if number, err := strconv.Atoi(l.message.Fault.Episode); err == nil { // recalled
			g.number = number
		} else if before, ok := b.latest.Get(key); ok {
			g.number = before.number
			if before.over {
				g.number++
			}
		}
		g.episode = strconv.Itoa(g.number)
		b.groups[key] = g
	}
	g.members = append(g.members, l)
	g.most = max(g.most, len(g.members))
	l.group = g
	if g.workload != "" {
		l.message.Fault.Episode = g.episode
	}
}

// leave takes a fault out of its group, which says whether it was the last.
func (b *Book) leave(l *lasting, now time.Time) bool {
	g := l.group
	i := slices.Index(g.members, l)
	g.members = slices.Delete(g.members, i, i+1)
	if l.told {
		g.told--
	}
	if len(g.members) > 0 {
		if g.open && g.face.Fault.ID == l.message.Fault.ID {
			i = max(0, slices.IndexFunc(g.members, func(l *lasting) bool { return l.told }))
			g.face = g.members[i].message
		}
		return false
	}
	b.unpend(g)
	delete(b.groups, g.key)
	if g.open && g.key != l.key {
		b.latest.Add(g.key, last{number: g.number, over: true, at: now})
	}
	return true
}

// waits is a fault of a group that waits for room, nil where none does. It is the one with
// the least key, which says nothing of when it is over: where all pods of a workload go, in
// any order, few are told only to be over next, which there was no room for.
func (g *group) waits() *lasting {
	var least *lasting
	for _, l := range g.members {
		if l.place != nil && (least == nil || l.key < least.key) {
			least = l
		}
	}
	return least
}

// opens notes that the alert of a group is told.
func (b *Book) opens(g *group, m *kube.Message) {
	g.open, g.face = true, *m
	if g.workload != "" && len(g.members) > 0 {
		b.latest.Add(g.key, last{number: g.number})
	}
}

// raise is the alert about a fault that was told, nil where it is told later, with what
// else comes until then.
func (b *Book) raise(g *group, m *kube.Message, omitted int, now time.Time) *external.Alert {
	switch {
	case !g.open:
		b.opens(g, m)
	case now.Before(g.next):
		b.stats.Gathered++
		b.pend(g, now)
		return nil
	default:
		b.stats.Gathered++
	}
	return b.say(g, omitted, now)
}

// say is the alert of a group as it stands.
func (b *Book) say(g *group, omitted int, now time.Time) *external.Alert {
	if len(g.members) == 0 {
		g.face = g.newest
	}
	b.unpend(g)
	g.wait = min(max(2*g.wait, Gather), MaxGather)
	g.next = now.Add(g.wait)
	return b.alert(g, &g.face, omitted)
}

// again is the alert of a group that is told again without a fault that is told.
func (b *Book) again(g *group, now time.Time) Finding {
	a := b.say(g, 0, now)
	return Finding{Alert: a, MsgID: fmt.Sprintf("%s-%s/again/%d", g.key, g.episode, now.UnixNano())}
}

// note counts a fault that is over with its beginning.
func (g *group) note(pod string, now time.Time) {
	g.times++
	g.at = now
	switch {
	case slices.Contains(g.pods, pod):
	case len(g.pods) < maxNamed:
		g.pods = append(g.pods, pod)
	default:
		g.others = true
	}
}

// spell is the group that a fault joins that is over with its beginning, nil where it is
// news. Warnings of one reason come as several events in turn, as of a readiness and a
// liveness probe, or with a text that differs each time: until nothing was heard of the
// reason for some time, all are one. So are the crashes of a workload; each of a pod that
// is its own is news.
func (b *Book) spell(key, kind, workload string, now time.Time) *group {
	within := steadyRun
	switch {
	case kind == kube.Warning:
		within = unseen
	case workload == "":
		return nil
	}
	if g, ok := b.spells.Get(key); ok && now.Sub(g.at) < within {
		return g
	}
	return nil
}

// begins makes the group of a fault that is over with its beginning.
func (b *Book) begins(key, episode, workload string) *group {
	g := &group{key: key, episode: episode, workload: workload, index: -1}
	if before, ok := b.spells.Peek(key); ok {
		b.unpend(before)
	}
	b.spells.Add(key, g)
	return g
}

// loops says whether it was told that the container is in a crash loop, in any pod of the
// workload: that is what crashes of it are part of.
func (b *Book) loops(namespace, workload, container string) bool {
	if workload == "" {
		return false
	}
	g := b.groups[b.groupKey(namespace, workload, container, kube.CrashLoop, "")]
	return g != nil && g.open
}

// belongs is the group that a fault was told in, nil where that is over.
func (b *Book) belongs(m *kube.Message) *group {
	key, episode := b.groupOf(m), m.Fault.Episode
	g := b.groups[key]
	if g == nil {
		g, _ = b.spells.Peek(key)
	}
	if m.Fault.Workload == "" && m.Fault.Kind != kube.Warning {
		_, episode = split(m.Fault.ID)
		episode = series(episode)
	}
	if g == nil || !g.open || g.episode != episode && (m.Fault.Workload != "" || m.Fault.Kind != kube.Warning) {
		return nil
	}
	return g
}

// logs takes what the logs of a fault say into its group, which says whether that is more
// than was known: of its pods, those count that the alert shows, else the first, else those
// that panic.
func (g *group) logs(m *kube.Message) bool {
	line, panics := telling(m.Logs)
	id := m.Fault.ID
	switch {
	case g.logsOf == id:
	case g.face.Fault.ID == id:
		if g.logsOf != "" && (line == "" || g.panics && !panics) {
			return true
		}
	case line != "" && (g.line == "" || panics && !g.panics):
		g.face = *m
		g.face.Logs = nil
	default:
		return false
	}
	g.line, g.panics, g.logsOf = line, panics, id
	return true
}

// recalled takes what a predecessor published of a fault that is over with its beginning.
func (b *Book) recalled(m *kube.Message, at time.Time) {
	f := m.Fault
	key := b.groupOf(m)
	episode := f.Episode
	switch {
	case f.Workload != "" && episode == "": // told within a crash loop
		return
	case len(m.Logs) > 0:
		if g := b.belongs(m); g != nil {
			g.logs(m)
		}
		return
	case episode == "":
		_, episode = split(f.ID)
		episode = series(episode)
	}
	g := b.spell(key, f.Kind, f.Workload, at)
	if g == nil || f.Workload != "" && g.episode != episode {
		g = b.begins(key, episode, f.Workload)
	}
	g.note(m.Event.InvolvedObject.Name, at)
	g.open, g.face, g.newest = true, *m, *m
}

// extent says how much of a workload a group is of, empty where that goes without saying.
func (g *group) extent(over bool) string {
	switch n := len(g.members); {
	case g.workload == "":
		return ""
	case over:
		if g.most > 1 {
			return fmt.Sprintf("it was in %d pods at once", g.most)
		}
		return ""
	case n == 1:
		return "pod " + g.members[0].of.name.name
	case n > 1:
		named := make([]string, min(n, maxNamed))
		for i := range named {
			named[i] = g.members[i].of.name.name
		}
		s := fmt.Sprintf("%d pods: %s", n, strings.Join(named, ", "))
		if n > maxNamed {
			s += fmt.Sprintf(" and %d more", n-maxNamed)
		}
		return s
	}
	s := "pod"
	if len(g.pods) > 1 {
		s += "s"
	}
	s += " " + strings.Join(g.pods, ", ")
	if g.others {
		s += " and others"
	}
	if g.times > 1 {
		s = fmt.Sprintf("%d times, in %s", g.times, s)
	}
	return s
}

// pending is a heap of groups by when they are told again.
type pending []*group

func (h pending) Len() int { return len(h) }
func (h pending) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].key < h[j].key
}
func (h pending) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *pending) Push(x any) {
	g := x.(*group)
	g.index = len(*h)
	*h = append(*h, g)
}
func (h *pending) Pop() any {
	last := len(*h) - 1
	g := (*h)[last]
	(*h)[last] = nil
	*h, g.index = (*h)[:last], -1
	return g
}

// pend has a group told again as soon as it may be: at once, where a predecessor told it last.
func (b *Book) pend(g *group, now time.Time) {
	if g.index < 0 {
		if g.due = g.next; g.due.Before(now) {
			g.due = now
		}
		heap.Push(&b.pending, g)
	}
}

func (b *Book) unpend(g *group) {
	if g.index >= 0 {
		heap.Remove(&b.pending, g.index)
	}
}
