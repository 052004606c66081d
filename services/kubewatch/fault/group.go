package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Bounds of the groups of faults that share an alert.
const (
	// MaxGroups is how many alerts of momentary faults are remembered. Past it the least
	// recently used is forgotten, and its next fault raises a new alert.
	MaxGroups = 10_000
	// UpdateInterval is the shortest time between the first two publications of an alert.
	// It doubles with each further one, up to MaxUpdateInterval: an alert is published
	// about 7 times in its first 10 minutes, however many pods fail.
	UpdateInterval    = 5 * time.Second
	MaxUpdateInterval = 5 * time.Minute
	// maxNamedPods is how many pods an alert names.
	maxNamedPods = 3
)

// group is the set of faults that share one alert: the faults of one kind of a container
// of a workload's pods, or of an object without a workload. A release that fails in 500
// pods is 500 faults on the stream and one alert.
//
// A group of lasting faults exists while one of them lasts. A group of momentary faults
// exists while the next one follows within some time; see recentGroup.
type group struct {
	key, episode string
	number       int    // the episode of lasting faults
	workload     string // empty if the object has none
	// alerted is set once the alert was published.
	alerted bool

	// members are the lasting faults, including those that wait for the rate limit, oldest
	// first. publishedMembers counts those that were published, maxMembers is the
	// largest number at once.
	members                      []*lasting
	publishedMembers, maxMembers int

	// faultCount counts the momentary faults. pods are the first pods with one,
	// hasMorePods is set if there are others. newestAt is the time of the newest fault.
	faultCount  int
	pods        []string
	hasMorePods bool
	newestAt    time.Time

	// shown is the fault that the alert shows, newest the one that it will show next.
	shown, newest kube.Message
	// excerpt is an excerpt of the logs of the fault logsOf; isPanic is set if it is the
	// line of a panic.
	excerpt, logsOf string
	isPanic         bool

	// nextUpdate is when the alert may be published again: interval after the last
	// publication.
	nextUpdate time.Time
	interval   time.Duration
	// updateTimer is when the alert will be published again, if that is scheduled.
	updateTimer timer
}

// groupKey returns the key of a workload's group. It is the same for all pods.
func (t *Tracker) groupKey(namespace, workload, container, kind, qualifier string) string {
	return t.key("workload/"+namespace+"/"+workload, container, kind, qualifier)
}

// groupKeyOf returns the key of the group of a published fault.
func (t *Tracker) groupKeyOf(m *kube.Message) string {
	if m.Fault.Workload == "" {
		key, _ := splitID(m.Fault.ID)
		return key
	}
	qualifier, ref := "", m.Event.InvolvedObject
	if m.Fault.Kind == kube.Warning {
		qualifier = m.Event.Reason
	}
	return t.groupKey(ref.Namespace, m.Fault.Workload, ref.Container, m.Fault.Kind, qualifier)
}

// groupOfMessage returns the group in which a fault was published, or nil if that episode
// is over.
func (t *Tracker) groupOfMessage(m *kube.Message) *group {
	key, episode := t.groupKeyOf(m), m.Fault.Episode
	g := t.openGroups[key]
	if g == nil {
		g, _ = t.recentGroups.Peek(key)
	}
	if m.Fault.Workload == "" && m.Fault.Kind != kube.Warning {
		_, episode = splitID(m.Fault.ID)
		episode = alertEpisode(episode)
	}
	if g == nil || !g.alerted || g.episode != episode && (m.Fault.Workload != "" || m.Fault.Kind != kube.Warning) {
		return nil
	}
	return g
}

// joinGroup adds a lasting fault to its group.
func (t *Tracker) joinGroup(l *lasting) {
	key := t.groupKeyOf(&l.message)
	g := t.openGroups[key]
	if g == nil {
		g = &group{key: key, workload: l.message.Fault.Workload}
		if number, err := strconv.Atoi(l.message.Fault.Episode); err == nil { // recalled
			g.number = number
		} else if before, ok := t.latest.Get(key); ok {
			g.number = before.number
			if before.over {
				g.number++
			}
		}
		g.episode = strconv.Itoa(g.number)
		t.openGroups[key] = g
	}
	g.members = append(g.members, l)
	g.maxMembers = max(g.maxMembers, len(g.members))
	l.group = g
	if g.workload != "" {
		l.message.Fault.Episode = g.episode
	}
}

// leaveGroup removes a lasting fault from its group and reports whether it was the last.
func (t *Tracker) leaveGroup(l *lasting, now time.Time) bool {
	g := l.group
	i := slices.Index(g.members, l)
	g.members = slices.Delete(g.members, i, i+1)
	if l.published {
		g.publishedMembers--
	}
	if len(g.members) > 0 {
		if g.alerted && g.shown.Fault.ID == l.message.Fault.ID {
			i = max(0, slices.IndexFunc(g.members, func(l *lasting) bool { return l.published }))
			g.shown = g.members[i].message
		}
		return false
	}
	t.cancelUpdate(g)
	delete(t.openGroups, g.key)
	if g.alerted && g.key != l.key {
		t.latest.Add(g.key, latestFault{number: g.number, over: true, at: now})
	}
	return true
}

// firstWaiting returns the fault with the lowest key of those that wait for the rate limit,
// or nil. The key is unrelated to when a fault ends: if all pods of a workload end, in any
// order, few faults are published just before their own end.
func (g *group) firstWaiting() *lasting {
	var first *lasting
	for _, l := range g.members {
		if l.element != nil && (first == nil || l.key < first.key) {
			first = l
		}
	}
	return first
}

// openAlert records that the alert of a group was published.
func (t *Tracker) openAlert(g *group, m *kube.Message) {
	g.alerted, g.shown = true, *m
	if g.workload != "" && len(g.members) > 0 {
		t.latest.Add(g.key, latestFault{number: g.number})
	}
}

// raiseAlert returns the alert for a published fault. It is nil if the alert was published a
// short time ago: then it is updated later, with all faults until then.
func (t *Tracker) raiseAlert(g *group, m *kube.Message, omitted int, now time.Time) *external.Alert {
	switch {
	case !g.alerted:
		t.openAlert(g, m)
	case now.Before(g.nextUpdate):
		t.stats.Grouped++
		t.scheduleUpdate(g, now)
		return nil
	default:
		t.stats.Grouped++
	}
	return t.currentAlert(g, omitted, now)
}

// currentAlert returns the alert of a group as it stands, for publication now.
func (t *Tracker) currentAlert(g *group, omitted int, now time.Time) *external.Alert {
	if len(g.members) == 0 {
		g.shown = g.newest
	}
	t.cancelUpdate(g)
	g.interval = min(max(2*g.interval, UpdateInterval), MaxUpdateInterval)
	g.nextUpdate = now.Add(g.interval)
	return t.alert(g, &g.shown, omitted)
}

// updateFinding returns an update of a group's alert without a fault.
func (t *Tracker) updateFinding(g *group, now time.Time) Finding {
	a := t.currentAlert(g, 0, now)
	return Finding{Alert: a, MsgID: fmt.Sprintf("%s-%s/again/%d", g.key, g.episode, now.UnixNano())}
}

// countFault adds a momentary fault of a pod to the counts.
func (g *group) countFault(pod string, now time.Time) {
	g.faultCount++
	g.newestAt = now
	switch {
	case slices.Contains(g.pods, pod):
	case len(g.pods) < maxNamedPods:
		g.pods = append(g.pods, pod)
	default:
		g.hasMorePods = true
	}
}

// recentGroup returns the group that a momentary fault joins, or nil if it raises a new
// alert.
//
// Warnings of one reason join until none came for eventLifetime: they may come as several
// events in turn, as of a readiness and a liveness probe, or with a varying text. Crashes
// and out-of-memory kills of a workload join within stableRun; those of a pod without a
// workload each raise an alert.
func (t *Tracker) recentGroup(key, kind, workload string, now time.Time) *group {
	within := stableRun
	switch {
	case kind == kube.Warning:
		within = eventLifetime
	case workload == "":
		return nil
	}
	if g, ok := t.recentGroups.Get(key); ok && now.Sub(g.newestAt) < within {
		return g
	}
	return nil
}

// newRecentGroup adds a group of momentary faults.
func (t *Tracker) newRecentGroup(key, episode, workload string) *group {
	g := &group{key: key, episode: episode, workload: workload}
	if before, ok := t.recentGroups.Peek(key); ok {
		t.cancelUpdate(before)
	}
	t.recentGroups.Add(key, g)
	return g
}

// inCrashLoop reports whether a crash loop of the container was published for any pod of
// the workload. Crashes of the container are part of it.
func (t *Tracker) inCrashLoop(namespace, workload, container string) bool {
	if workload == "" {
		return false
	}
	g := t.openGroups[t.groupKey(namespace, workload, container, kube.CrashLoop, "")]
	return g != nil && g.alerted
}

// addLogs takes the logs of a fault and reports whether the alert should show them. The
// logs of the shown fault come first, then the first ones, then those with a panic.
func (g *group) addLogs(m *kube.Message) bool {
	excerpt, isPanic := logExcerpt(m.Logs)
	id := m.Fault.ID
	switch {
	case g.logsOf == id:
	case g.shown.Fault.ID == id:
		if g.logsOf != "" && (excerpt == "" || g.isPanic && !isPanic) {
			return true
		}
	case excerpt != "" && (g.excerpt == "" || isPanic && !g.isPanic):
		g.shown = *m
		g.shown.Logs = nil
	default:
		return false
	}
	g.excerpt, g.isPanic, g.logsOf = excerpt, isPanic, id
	return true
}

// extent describes which pods of a workload a group covers; empty without a workload.
func (g *group) extent(over bool) string {
	switch n := len(g.members); {
	case g.workload == "":
		return ""
	case over:
		if g.maxMembers > 1 {
			return fmt.Sprintf("up to %d pods at once", g.maxMembers)
		}
		return ""
	case n == 1:
		return "pod " + g.members[0].object.name
	case n > 1:
		named := make([]string, min(n, maxNamedPods))
		for i := range named {
			named[i] = g.members[i].object.name
		}
		s := fmt.Sprintf("%d pods: %s", n, strings.Join(named, ", "))
		if n > maxNamedPods {
			s += fmt.Sprintf(" and %d more", n-maxNamedPods)
		}
		return s
	}
	s := "pod"
	if len(g.pods) > 1 {
		s += "s"
	}
	s += " " + strings.Join(g.pods, ", ")
	if g.hasMorePods {
		s += " and others"
	}
	if g.faultCount > 1 {
		s = fmt.Sprintf("%d times, in %s", g.faultCount, s)
	}
	return s
}

// timer and orderKey make a group an item of Tracker.updates.
func (g *group) timer() *timer    { return &g.updateTimer }
func (g *group) orderKey() string { return g.key }

// scheduleUpdate has the alert of a group published again as soon as its interval allows.
// That is at once if a predecessor published it last.
func (t *Tracker) scheduleUpdate(g *group, now time.Time) {
	if g.updateTimer.queued {
		return
	}
	at := g.nextUpdate
	if at.Before(now) {
		at = now
	}
	t.updates.schedule(g, at)
}

func (t *Tracker) cancelUpdate(g *group) { t.updates.cancel(g) }
