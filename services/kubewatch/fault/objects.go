package fault

import (
	"container/list"
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

type objectName struct{ kind, namespace, name string }

// object is what is known of an object. Its state fields are empty until seen is set.
type object struct {
	objectName
	id   string // see objectID
	seen bool
	// pod is set for pods, ready for nodes.
	pod   *Pod
	ready Condition
	// runs are the newest ends of its containers that were examined.
	runs []run
	// open are its lasting faults.
	open []*lasting
	// missingLogs are recalled faults whose logs were never published.
	missingLogs []recalledFault
}

// recalledFault is a fault that a predecessor published at a time.
type recalledFault struct {
	message *kube.Message
	at      time.Time
}

// run is the newest end of a container that was examined.
type run struct {
	container, id string
	oom           bool
}

// lasting is a fault that lasts.
type lasting struct {
	object    *object
	key       string
	number    int
	kind      string
	container string
	message   kube.Message
	group     *group
	capture   *Capture // logs to read when it is published
	// published is set once it was published. Before that it waits for the rate limit: element
	// is its entry in limit.waiting.
	published bool
	element   *list.Element
	limit     *rateLimit
	// oomKilled is set if it was published, within this fault, that the container was
	// killed for its memory.
	oomKilled bool
	// endTimer is when it ends if nothing is reported before, for endReason.
	endTimer  timer
	endReason string
}

// workload returns the workload of a pod, empty if it has none or is not known.
func (o *object) workload() string {
	if o.pod == nil {
		return ""
	}
	return o.pod.Workload
}

// openFault returns the lasting fault of a kind and container, or nil.
func (o *object) openFault(kind, container string) *lasting {
	for _, l := range o.open {
		if l.kind == kind && l.container == container {
			return l
		}
	}
	return nil
}

// openFaultOfEvent returns the lasting fault that an event refers to: of the container that
// it names, or of any if the event or the fault names none.
func (o *object) openFaultOfEvent(kind, container string) *lasting {
	if l := o.openFault(kind, container); l != nil {
		return l
	}
	for _, l := range o.open {
		if l.kind == kind && (container == "" || l.container == "") {
			return l
		}
	}
	return nil
}

// run returns the newest examined end of a container, new if there is none.
func (o *object) run(container string) *run {
	for i := range o.runs {
		if o.runs[i].container == container {
			return &o.runs[i]
		}
	}
	o.runs = append(o.runs, run{container: container})
	return &o.runs[len(o.runs)-1]
}

// objectID returns an id that distinguishes objects, also those of the same name. Nodes
// have their name, because the uid that kubelets give them is not the object's.
func objectID(ref kube.Object) string {
	if ref.UID == "" || ref.Kind == KindNode {
		return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
	return ref.UID
}

// find returns the object of a reference, or nil.
func (t *Tracker) find(ref kube.Object) *object {
	if o := t.objects[objectID(ref)]; o != nil {
		return o
	}
	o := t.objects[t.ids[objectName{ref.Kind, ref.Namespace, ref.Name}]]
	if o != nil && (ref.UID == "" || o.pod != nil && o.pod.UID == ref.UID) {
		return o
	}
	return nil
}

// findOrAdd returns the object of a reference and tracks it from now on; nil at
// MaxObjects.
func (t *Tracker) findOrAdd(ref kube.Object) *object {
	if o := t.find(ref); o != nil {
		return o
	}
	if len(t.objects) >= MaxObjects {
		t.stats.Untracked++
		return nil
	}
	o := &object{objectName: objectName{ref.Kind, ref.Namespace, ref.Name}, id: objectID(ref)}
	t.objects[o.id], t.ids[o.objectName] = o, o.id
	return o
}

// findOrTransient is find, with an object that is not tracked in place of nil. It is for
// momentary faults, which need not keep their object.
func (t *Tracker) findOrTransient(ref kube.Object) *object {
	if o := t.find(ref); o != nil {
		return o
	}
	return &object{objectName: objectName{ref.Kind, ref.Namespace, ref.Name}, id: objectID(ref)}
}

// trackObject returns the object whose state arrived, nil at MaxObjects, and whether it is the
// object's first state. It removes a former object of the same name.
func (t *Tracker) trackObject(kind string, m *Meta, now time.Time) (out []Finding, o *object, first bool) {
	ref := m.Object(kind)
	if m.Alias != "" {
		ref.UID = m.Alias
	}
	id := objectID(ref)
	if before := t.objects[t.ids[objectName{kind, m.Namespace, m.Name}]]; before != nil && before.id != id {
		if before.id == m.UID && t.objects[id] == nil { // recalled by its other uid
			delete(t.objects, before.id)
			before.id = id
			t.objects[id], t.ids[before.objectName] = before, id
		} else {
			out = t.remove(nil, before, now)
		}
	}
	if o = t.findOrAdd(ref); o == nil {
		return out, nil, false
	}
	first = !o.seen
	o.seen = true
	return out, o, first
}

func (t *Tracker) forget(o *object) {
	delete(t.objects, o.id)
	if t.ids[o.objectName] == o.id {
		delete(t.ids, o.objectName)
	}
}

// forgetIfUnused forgets an object whose state was never seen and that has no lasting
// fault.
func (t *Tracker) forgetIfUnused(o *object) {
	if !o.seen && len(o.open) == 0 && len(o.missingLogs) == 0 {
		t.forget(o)
	}
}

// timer and orderKey make a lasting fault an item of Tracker.ends.
func (l *lasting) timer() *timer    { return &l.endTimer }
func (l *lasting) orderKey() string { return l.key }

// scheduleEnd sets when a fault ends if nothing is reported before.
func (t *Tracker) scheduleEnd(l *lasting, at time.Time, reason string) {
	l.endReason = reason
	t.ends.schedule(l, at)
}

// cancelEnd lets a fault last until something ends it.
func (t *Tracker) cancelEnd(l *lasting) {
	l.endReason = ""
	t.ends.cancel(l)
}
