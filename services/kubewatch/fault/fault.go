// Package fault decides what is wrong in a cluster, which of that is news, and what
// is over.
//
// A fault is the edge of a state (a container ended with an error, a node is not
// ready) or a Warning event of a pod. What lasts is told when it begins and when it
// ends; what is over with its beginning, such as a crash, is told once. Events and
// states say the same in two ways and in any order: one thing is told once, by
// whichever comes first. What happened before anybody watched is not told, what still
// lasts is.
//
// Faults go by pod, and their alerts by workload; see group.
//
// The package knows no client of Kubernetes, no bus and no clock. Its memory is
// bounded; so is how much it tells, see Burst. Nothing in it is by chance: the same
// states, events and times give the same findings with the same ids, so that what a
// predecessor has told (Recall) is not told again.
package fault

import (
	"container/heap"
	"container/list"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// Bounds of a Book.
const (
	// MaxObjects is how many objects are known at once. Past it, the states of further
	// ones are not looked at, and counted as Unknown; their events still are.
	MaxObjects = 200_000
	// MaxOpen is how many faults may last at once. Past it, further ones are not told
	// until there is room, and counted as Withheld each time they are seen.
	MaxOpen = 20_000
	// MaxTold is how many faults are remembered as told. Past it, the one told longest
	// ago is forgotten: it would be told again if the cluster said it again.
	MaxTold = 50_000
	// Burst is how many faults of one kind are told at once, and Rate how many more in
	// each second after that: of those whose alert is news, and as many again of those
	// that join one, so that a workload's first fault doesn't wait behind the pods of another. Past it, what lasts is told when there is room and it
	// still lasts, and the rest is counted (Withheld, and the Omitted of the next
	// alert of the kind). Kinds don't take each other's room: a node's fault is told
	// while thousands of pods crash.
	Burst = 100
	Rate  = 1
	// Window is for how long a Warning event of the same pod, container, reason and
	// count is the same again (specification, section 10), an event about a process
	// that was ended for its memory is the same as the container's state that says
	// so, and the logs of a pod are not read again for a warning.
	Window = time.Minute
)

// How long it has to be well until a fault is over, so that what comes and goes is one
// fault.
const (
	// steadyRun is that of a crash loop: the kubelet forgets its back-off after a run
	// of 10 minutes, so a container that ended later is in no loop any more.
	steadyRun = 10 * time.Minute
	// steady is that of conditions, which flap while nodes and deployments come up.
	steady = 30 * time.Second
	// unseen is for how long a fault lasts that events alone say of a pod: kubelets
	// repeat themselves at least every 5 minutes or so.
	unseen = 15 * time.Minute
	// unseenLong is that of objects whose events are not repeated.
	unseenLong = 24 * time.Hour
	// skew is how far the clocks of a cluster's nodes and ours may be apart where it
	// is asked what our predecessor has seen.
	skew = time.Minute
)

// Finding is what to do about a fault. Publish the Alert first and the Message once
// that is acknowledged: a fault whose Message is on the stream is not told again, and
// an alert that is told twice is one.
type Finding struct {
	// Message is to be published under MsgID. Without a MsgID it was already: only the
	// logs are wanted.
	// Where the Message has no Fault, there is only an Alert, told again under MsgID.
	Message kube.Message
	MsgID   string
	// Alert is nil where there is none: it was told, of another pod of the workload.
	Alert *external.Alert
	// Capture is which logs belong to it, nil where none do. See WithLogs.
	Capture *Capture
}

// Capture is which logs of a pod to read.
type Capture struct {
	Namespace, Pod string
	// Targets are at most maxTargets, the container at fault first.
	Targets []Target
}

// Target is one log: a container's, or that of its run before the present one. An
// empty Container is the pod's only one, or the one that it calls the default.
type Target struct {
	Container string
	Previous  bool
}

// Stats is what a Book counts. Those that count are since it was made.
type Stats struct {
	// Objects are known, Open faults last, Waiting of those were not told yet.
	// Groups are the alerts that last.
	Objects, Open, Waiting, Groups int
	// Told are faults, Over ends of them. Joined is what said the same as a fault that
	// was told, Withheld what was not told for one of the bounds, Unknown are states
	// of objects past MaxObjects. Gathered are faults that were told within an alert that
	// another pod of the workload had raised.
	Told, Over, Joined, Withheld, Unknown, Gathered uint64
}

// Book is what is known of the faults of one cluster. It belongs to one goroutine.
type Book struct {
	cluster, uid string
	mask         *redact.Engine
	// objects are by uid, names are their uids by kind, namespace and name.
	objects map[string]*object
	names   map[name]string
	open    int
	// due are the faults that are over when their time has come.
	due timers
	// room is what may be told of each kind.
	room map[string]*bucket
	// groups are those of what lasts, spells the others, by key; pending are those that
	// are told again.
	groups  map[string]*group
	spells  *simplelru.LRU[string, *group]
	pending pending
	// told are the faults by id, latest by key, warned by the window's key, killed and
	// read (when its logs were last wanted for a warning) by the pod's uid.
	told   *simplelru.LRU[string, struct{}]
	latest *simplelru.LRU[string, last]
	warned *simplelru.LRU[string, time.Time]
	read   *simplelru.LRU[string, time.Time]
	killed *simplelru.LRU[string, kill]
	// until is when our predecessor was alive last, oldest since when its faults were
	// recalled. Zero without one.
	oldest, until time.Time
	stats         Stats
}

type name struct{ kind, namespace, name string }

// last is how the newest fault of a key stands.
type last struct {
	id string
	// number is which fault of its key it is, of those that last.
	number int
	over   bool
	at     time.Time
}

// object is what is known of one. It is without a state until that was seen.
type object struct {
	name
	uid  string
	seen bool
	// pod is nil where it is none, or wasn't seen; ready is a node's.
	pod   *Pod
	ready Condition
	// runs are the newest ends of its containers that were looked at.
	runs []run
	// open are the faults of it that last.
	open []*lasting
	// wanting are recalled faults whose logs never came.
	wanting []wanted
}

// wanted is a fault that was published at a time.
type wanted struct {
	message *kube.Message
	at      time.Time
}

// kill says that a process of a pod was ended for its memory, and whether an event said
// so that no state has confirmed yet.
type kill struct {
	at    time.Time
	event bool
}

// run is the newest end of a container that was looked at.
type run struct {
	container, id string
	oom           bool
}

// lasting is a fault that lasts.
type lasting struct {
	of        *object
	key       string
	number    int
	kind      string
	container string
	message   kube.Message
	group     *group
	// wanted are its logs.
	wanted *Capture
	// told is false while there is no room. place is where it waits then, within room.
	told  bool
	place *list.Element
	room  *bucket
	// killed says that it was told within it that the container was ended for its
	// memory.
	killed bool
	// due is when it is over, if nothing comes in between. index is its place among
	// the timers, -1 without.
	due   time.Time
	why   string
	index int
}

// NewBook returns the book of a cluster that nothing is known of. The uid may be empty.
func NewBook(cluster, uid string) *Book {
	b := &Book{
		cluster: cluster, uid: uid, mask: redact.New(), objects: map[string]*object{}, names: map[name]string{}, room: map[string]*bucket{},
		groups: map[string]*group{},
	}
	// The only error is that of a size under 1.
	b.told, _ = simplelru.NewLRU[string, struct{}](MaxTold, nil)
	b.latest, _ = simplelru.NewLRU[string, last](MaxTold, nil)
	b.warned, _ = simplelru.NewLRU[string, time.Time](MaxTold, nil)
	b.read, _ = simplelru.NewLRU[string, time.Time](MaxTold, nil)
	b.spells, _ = simplelru.NewLRU(MaxGroups, func(_ string, g *group) { b.unpend(g) })
	b.killed, _ = simplelru.NewLRU[string, kill](MaxTold, nil)
	return b
}

// Stats says how the book stands.
func (b *Book) Stats() Stats {
	s := b.stats
	s.Objects, s.Open, s.Groups = len(b.objects), b.open, len(b.groups)
	for _, r := range b.room {
		s.Waiting += r.waiting.Len()
	}
	return s
}

// Next is when Tick has something to do, zero while there is nothing.
func (b *Book) Next() time.Time {
	var next time.Time
	if len(b.due) > 0 {
		next = b.due[0].due
	}
	if len(b.pending) > 0 && (next.IsZero() || b.pending[0].due.Before(next)) {
		next = b.pending[0].due
	}
	for _, r := range b.room {
		if at := r.next(); r.waiting.Len() > 0 && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// Tick tells what is due: ends, what waited for room, and alerts that more has joined.
func (b *Book) Tick(now time.Time) []Finding {
	var out []Finding
	for len(b.due) > 0 && !b.due[0].due.After(now) {
		out = b.end(out, b.due[0], b.due[0].why, now)
	}
	for _, kind := range kube.Faults() {
		for _, r := range []*bucket{b.bucket(kind), b.bucket(more(kind))} {
			for r.waiting.Len() > 0 && r.take(now) {
				out = append(out, b.begin(r.waiting.Front().Value.(*lasting), now))
			}
		}
	}
	for len(b.pending) > 0 && !b.pending[0].due.After(now) {
		out = append(out, b.again(b.pending[0], now))
	}
	return out
}

// Gone says that an object was deleted: what lasted of it is over.
func (b *Book) Gone(o kube.Object, now time.Time) []Finding {
	if t := b.known(o); t != nil {
		return b.gone(nil, t, now)
	}
	return nil
}

func (b *Book) gone(out []Finding, t *object, now time.Time) []Finding {
	for len(t.open) > 0 {
		out = b.end(out, t.open[0], "the object is gone", now)
	}
	b.forget(t)
	return out
}

// Synced says that the first list of a kind is complete: what a predecessor told of
// objects that aren't in it is over.
func (b *Book) Synced(kind string, now time.Time) []Finding {
	var absent []*object
	for _, t := range b.objects {
		if t.kind == kind && !t.seen {
			absent = append(absent, t)
		}
	}
	slices.SortFunc(absent, func(x, y *object) int { return strings.Compare(x.uid, y.uid) })
	var out []Finding
	for _, t := range absent {
		out = b.gone(out, t, now)
	}
	return out
}

// identity is what tells an object from others, also of the same name. Nodes go by
// their name, because kubelets name them by something that is no uid.
func identity(o kube.Object) string {
	if o.UID == "" || o.Kind == KindNode {
		return o.Kind + "/" + o.Namespace + "/" + o.Name
	}
	return o.UID
}

// known is the object that is meant, nil where it is none that is known.
func (b *Book) known(o kube.Object) *object {
	if t := b.objects[identity(o)]; t != nil {
		return t
	}
	t := b.objects[b.names[name{o.Kind, o.Namespace, o.Name}]]
	if t != nil && (o.UID == "" || t.pod != nil && t.pod.UID == o.UID) {
		return t
	}
	return nil
}

// noted is the object that is meant, which is known from now on; nil at the bound.
func (b *Book) noted(o kube.Object) *object {
	if t := b.known(o); t != nil {
		return t
	}
	if len(b.objects) >= MaxObjects {
		b.stats.Unknown++
		return nil
	}
	t := &object{name: name{o.Kind, o.Namespace, o.Name}, uid: identity(o)}
	b.objects[t.uid], b.names[t.name] = t, t.uid
	return t
}

// see is the object whose state came, nil at the bound, and whether it is the first
// state of it. One of the same name that was before it is gone.
func (b *Book) see(kind string, m *Meta, now time.Time) (out []Finding, t *object, first bool) {
	o := m.Object(kind)
	if m.Alias != "" {
		o.UID = m.Alias
	}
	id := identity(o)
	if before := b.objects[b.names[name{kind, m.Namespace, m.Name}]]; before != nil && before.uid != id {
		if before.uid == m.UID && b.objects[id] == nil { // recalled, by its other uid
			delete(b.objects, before.uid)
			before.uid = id
			b.objects[id], b.names[before.name] = before, id
		} else {
			out = b.gone(nil, before, now)
		}
	}
	if t = b.noted(o); t == nil {
		return out, nil, false
	}
	first = !t.seen
	t.seen = true
	return out, t, first
}

func (b *Book) forget(t *object) {
	delete(b.objects, t.uid)
	if b.names[t.name] == t.uid {
		delete(b.names, t.name)
	}
}

// past says whether what happened then was before anybody watched.
func (b *Book) past(initial bool, at time.Time) bool {
	return initial && (b.until.IsZero() || at.Before(b.until.Add(-skew)))
}

// timers are a heap of faults by when they are over.
type timers []*lasting

func (h timers) Len() int { return len(h) }
func (h timers) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].key < h[j].key
}
func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timers) Push(x any) {
	l := x.(*lasting)
	l.index = len(*h)
	*h = append(*h, l)
}
func (h *timers) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h, l.index = (*h)[:last], -1
	return l
}

// set says when a fault is over if nothing comes in between; zero is never.
func (b *Book) set(l *lasting, due time.Time, why string) {
	l.why = why
	switch {
	case due.IsZero() && l.index >= 0:
		heap.Remove(&b.due, l.index)
	case due.IsZero() || due.Equal(l.due) && l.index >= 0:
	case l.index >= 0:
		l.due = due
		heap.Fix(&b.due, l.index)
	default:
		l.due = due
		heap.Push(&b.due, l)
	}
}
