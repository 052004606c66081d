package fault

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/panics"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// names are what the kinds are called in alerts. A warning is called by its reason.
var names = map[string]string{
	kube.Crash: "Container crashed", kube.OutOfMemory: "Out of memory", kube.CrashLoop: "Crash loop", kube.ImagePull: "Image pull fails",
	kube.NodeNotReady: "Node not ready", kube.DeploymentStalled: "Deployment stalled", kube.JobFailed: "Job failed", kube.Warning: "Pod warning",
}

const (
	// maxLine bounds a line of a log in an alert, in characters, and maxLines how many
	// there are where no line is the mark of a panic.
	maxLine  = 300
	maxLines = 3
)

// text masks and cuts what comes from outside.
func (b *Book) text(s string, limit int) string {
	if s == "" {
		return ""
	}
	return sanitize.Cut(sanitize.Visible(b.mask.String(s)), limit)
}

// about is what the state of a container says.
func (b *Book) about(t *object, c *Container, kind string, end *Ended, now time.Time) said {
	o := t.pod.Object(KindPod)
	o.Container = c.Name
	what := "container " + c.Name
	if c.Init {
		what = "init " + what
	}
	s := said{fault: kube.Fault{Kind: kind, Restarts: c.Restarts, Workload: t.workload()}}
	reason, at := c.Waiting, now
	var words []string
	switch kind {
	case kube.Crash, kube.OutOfMemory:
		reason = end.Reason
		if !end.At.IsZero() {
			at = end.At
		}
	default:
		words = append(words, what+" waits: "+c.Waiting)
		if c.Message != "" {
			words = append(words, c.Message)
		}
	}
	if end != nil && kind != kube.ImagePull {
		s.fault.ExitCode, s.fault.Reason = end.ExitCode, b.text(end.Reason, kube.MaxName)
		words = append(words, ended(what, end))
		if end.Message != "" {
			words = append(words, end.Message)
		}
	}
	if reason == "" {
		reason = "Error"
	}
	s.event = kube.Event{
		Namespace: o.Namespace, Timestamp: at.UTC(), Type: kube.TypeWarning, Reason: b.text(reason, kube.MaxName),
		Message: b.text(strings.Join(words, "; "), kube.MaxMessage), Labels: t.pod.Labels, InvolvedObject: o,
	}
	return s
}

func ended(what string, end *Ended) string {
	s := fmt.Sprintf("%s ended with exit code %d", what, end.ExitCode)
	if end.Signal != 0 {
		s = fmt.Sprintf("%s was ended by signal %d", what, end.Signal)
	}
	if end.Reason != "" {
		s += " (" + end.Reason + ")"
	}
	return s
}

// state is what a condition says.
func (b *Book) state(t *object, m *Meta, kind string, c Condition, now time.Time) said {
	at := c.Since
	if at.IsZero() {
		at = now
	}
	reason := c.Reason
	if reason == "" {
		reason = names[kind]
	}
	message := strings.ToLower(names[kind])
	if c.Message != "" {
		message += ": " + c.Message
	}
	return said{
		event: kube.Event{
			Namespace: m.Namespace, Timestamp: at.UTC(), Type: kube.TypeWarning, Reason: b.text(reason, kube.MaxName),
			Message: b.text(message, kube.MaxMessage), Labels: m.Labels, InvolvedObject: m.Object(t.kind),
		},
		fault: kube.Fault{Kind: kind, Reason: b.text(c.Reason, kube.MaxName)},
	}
}

// event is what an event says, with what is known of its object's state.
func (b *Book) event(t *object, e *kube.Event, kind, container string) said {
	s := said{event: *e, fault: kube.Fault{Kind: kind, Workload: t.workload()}}
	s.event.Message = b.text(e.Message, kube.MaxMessage)
	s.event.InvolvedObject.Container = container
	if t.pod != nil {
		if len(s.event.Labels) == 0 {
			s.event.Labels = t.pod.Labels
		}
		if c := t.pod.container(container); c != nil {
			s.fault.Restarts = c.Restarts
			if end, _ := c.newest(); end != nil && kind != kube.ImagePull {
				s.fault.ExitCode, s.fault.Reason = end.ExitCode, b.text(end.Reason, kube.MaxName)
			}
		}
	}
	return s
}

// alert is the alert of a group that shows a fault of it, with what the logs say once
// they are there.
func (b *Book) alert(g *group, m *kube.Message, omitted int) *external.Alert {
	o, f := m.Event.InvolvedObject, m.Fault
	// A copy: the labels are those of the object, and the alert's are masked in place.
	labels := make(map[string]string, min(len(m.Event.Labels), external.MaxLabels))
	for _, name := range slices.Sorted(maps.Keys(m.Event.Labels))[:min(len(m.Event.Labels), external.MaxLabels)] {
		labels[name] = m.Event.Labels[name]
	}
	a := &external.Alert{
		Source: alert.SourceKubernetes, Key: g.key, Episode: g.episode, State: external.StateFiring, Severity: f.Severity, Level: m.Event.Type,
		App: telemetry.SenderApp(m.App()), Name: names[f.Kind], Place: place(o, g.workload), Summary: m.Event.Message, Labels: labels, StartsAt: m.Event.Timestamp, Omitted: omitted,
		Fault: &external.Fault{Cluster: m.Cluster, Namespace: o.Namespace, Kind: o.Kind, Name: o.Name, Container: o.Container, Workload: g.workload, Fault: f.Kind, ID: f.ID},
	}
	if f.Kind == kube.Warning {
		a.Name = m.Event.Reason
	}
	var words []string
	if extent := g.extent(f.State == kube.StateOver); extent != "" {
		words = append(words, extent)
	}
	if f.ExitCode != 0 && f.State != kube.StateOver { // that is how it failed, and not how it ended
		words = append(words, "exit code "+strconv.Itoa(f.ExitCode))
	}
	if f.Restarts > 0 {
		words = append(words, "restarts: "+strconv.Itoa(f.Restarts))
	}
	if g.line != "" && f.State != kube.StateOver {
		a.Fault.Panic = g.panics
		words = append(words, g.line)
	}
	a.Detail = strings.Join(words, "; ")
	b.mask.External(a)
	a.Detail = sanitize.Cut(sanitize.Visible(a.Detail), external.MaxText)
	return a
}

// place is where it is: the workload, where the object is one of its pods.
func place(o kube.Object, workload string) string {
	s := o.Name
	if kind, name, _ := kube.SplitWorkload(workload); name != "" {
		s = strings.ToLower(kind) + " " + name
	}
	if o.Namespace != "" {
		s = o.Namespace + "/" + s
	}
	if o.Container != "" {
		s += " (" + o.Container + ")"
	}
	return s
}

// telling is the part of the logs that says most: the mark of a panic and what stands
// behind it, else the last lines of the first log that has any, else why there is none.
func telling(logs []kube.Log) (text string, marked bool) {
	for _, l := range logs {
		if line, why, ok := panics.Says(l.Sample); l.HasPanic && ok {
			text = "log of " + l.Container + ": " + sanitize.Cut(line, maxLine)
			if why != "" {
				text += " ⏎ " + sanitize.Cut(why, maxLine)
			}
			return text, true
		}
	}
	for _, l := range logs {
		lines := last3(l.Sample)
		if len(lines) > 0 {
			return "log of " + l.Container + " ends: " + strings.Join(lines, " ⏎ "), false
		}
	}
	for _, l := range logs {
		if l.Error != "" {
			return "no log of " + l.Container + ": " + sanitize.Cut(l.Error, maxLine), false
		}
	}
	return "", false
}

// last3 are the last lines of a log that say anything.
func last3(sample string) []string {
	var lines []string
	for len(sample) > 0 && len(lines) < maxLines {
		i := strings.LastIndexByte(sample, '\n')
		if line := strings.TrimSpace(sample[i+1:]); line != "" {
			lines = append([]string{sanitize.Cut(line, maxLine)}, lines...)
		}
		sample = sample[:max(i, 0)]
	}
	return lines
}
