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

// alertNames are the names of alerts by kind. A warning's alert has the event's reason.
var alertNames = map[string]string{
	kube.Crash: "Container crashed", kube.OutOfMemory: "Out of memory", kube.CrashLoop: "Crash loop", kube.ImagePull: "Image pull fails",
	kube.NodeNotReady: "Node not ready", kube.DeploymentStalled: "Deployment stalled", kube.JobFailed: "Job failed", kube.Warning: "Pod warning",
}

// Bounds of a log excerpt in an alert: characters of a line, and lines if none of them is
// the line of a panic.
const (
	maxExcerptLine  = 300
	maxExcerptLines = 3
)

// clean masks secrets in text from outside, makes it visible and cuts it.
func (t *Tracker) clean(s string, limit int) string {
	if s == "" {
		return ""
	}
	return sanitize.Cut(sanitize.Visible(t.mask.String(s)), limit)
}

// containerReport returns the report of a container's state.
func (t *Tracker) containerReport(o *object, c *Container, kind string, end *Ended, now time.Time) report {
	ref := o.pod.Object(KindPod)
	ref.Container = c.Name
	subject := "container " + c.Name
	if c.Init {
		subject = "init " + subject
	}
	r := report{fault: kube.Fault{Kind: kind, Restarts: c.Restarts, Workload: o.workload()}}
	reason, at := c.Waiting, now
	var parts []string
	switch kind {
	case kube.Crash, kube.OutOfMemory:
		reason = end.Reason
		if !end.At.IsZero() {
			at = end.At
		}
	default:
		parts = append(parts, subject+" waits: "+c.Waiting)
		if c.Message != "" {
			parts = append(parts, c.Message)
		}
	}
	if end != nil && kind != kube.ImagePull {
		r.fault.ExitCode, r.fault.Reason = end.ExitCode, t.clean(end.Reason, kube.MaxName)
		parts = append(parts, describeEnd(subject, end))
		if end.Message != "" {
			parts = append(parts, end.Message)
		}
	}
	if reason == "" {
		reason = "Error"
	}
	r.event = kube.Event{
		Namespace: ref.Namespace, Timestamp: at.UTC(), Type: kube.TypeWarning, Reason: t.clean(reason, kube.MaxName),
		Message: t.clean(strings.Join(parts, "; "), kube.MaxMessage), Labels: o.pod.Labels, InvolvedObject: ref,
	}
	return r
}

func describeEnd(subject string, end *Ended) string {
	s := fmt.Sprintf("%s ended with exit code %d", subject, end.ExitCode)
	if end.Signal != 0 {
		s = fmt.Sprintf("%s was ended by signal %d", subject, end.Signal)
	}
	if end.Reason != "" {
		s += " (" + end.Reason + ")"
	}
	return s
}

// conditionReport returns the report of an object's condition.
func (t *Tracker) conditionReport(o *object, m *Meta, kind string, c Condition, now time.Time) report {
	at := c.Since
	if at.IsZero() {
		at = now
	}
	reason := c.Reason
	if reason == "" {
		reason = alertNames[kind]
	}
	message := strings.ToLower(alertNames[kind])
	if c.Message != "" {
		message += ": " + c.Message
	}
	return report{
		event: kube.Event{
			Namespace: m.Namespace, Timestamp: at.UTC(), Type: kube.TypeWarning, Reason: t.clean(reason, kube.MaxName),
			Message: t.clean(message, kube.MaxMessage), Labels: m.Labels, InvolvedObject: m.Object(o.kind),
		},
		fault: kube.Fault{Kind: kind, Reason: t.clean(c.Reason, kube.MaxName)},
	}
}

// eventReport returns the report of an event, with what is known of its object.
func (t *Tracker) eventReport(o *object, e *kube.Event, kind, container string) report {
	r := report{event: *e, fault: kube.Fault{Kind: kind, Workload: o.workload()}}
	r.event.Message = t.clean(e.Message, kube.MaxMessage)
	r.event.InvolvedObject.Container = container
	if o.pod != nil {
		if len(r.event.Labels) == 0 {
			r.event.Labels = o.pod.Labels
		}
		if c := o.pod.container(container); c != nil {
			r.fault.Restarts = c.Restarts
			if end, _ := c.newestEnd(); end != nil && kind != kube.ImagePull {
				r.fault.ExitCode, r.fault.Reason = end.ExitCode, t.clean(end.Reason, kube.MaxName)
			}
		}
	}
	return r
}

// alert returns the alert of a group that shows the fault of a message.
func (t *Tracker) alert(g *group, m *kube.Message, omitted int) *external.Alert {
	ref, f := m.Event.InvolvedObject, m.Fault
	// A copy, because the alert is masked in place and the labels are the object's.
	labels := make(map[string]string, min(len(m.Event.Labels), external.MaxLabels))
	for _, name := range slices.Sorted(maps.Keys(m.Event.Labels))[:min(len(m.Event.Labels), external.MaxLabels)] {
		labels[name] = m.Event.Labels[name]
	}
	a := &external.Alert{
		Source: alert.SourceKubernetes, Key: g.key, Episode: g.episode, State: external.StateFiring, Severity: f.Severity, Level: m.Event.Type,
		App: telemetry.SenderApp(m.App()), Name: alertNames[f.Kind], Place: location(ref, g.workload), Summary: m.Event.Message, Labels: labels, StartsAt: m.Event.Timestamp, Omitted: omitted,
		Fault: &external.Fault{
			Cluster: m.Cluster, Namespace: ref.Namespace, Kind: ref.Kind, Name: ref.Name, Container: ref.Container,
			Workload: g.workload, Fault: f.Kind, ID: f.ID,
		},
	}
	if f.Kind == kube.Warning {
		a.Name = m.Event.Reason
	}
	over := f.State == kube.StateOver
	var parts []string
	if extent := g.extent(over); extent != "" {
		parts = append(parts, extent)
	}
	if f.ExitCode != 0 && !over { // the exit code is that of the beginning
		parts = append(parts, "exit code "+strconv.Itoa(f.ExitCode))
	}
	if f.Restarts > 0 {
		parts = append(parts, "restarts: "+strconv.Itoa(f.Restarts))
	}
	if g.excerpt != "" && !over {
		a.Fault.Panic = g.isPanic
		parts = append(parts, g.excerpt)
	}
	a.Detail = strings.Join(parts, "; ")
	t.mask.External(a)
	a.Detail = sanitize.Cut(sanitize.Visible(a.Detail), external.MaxText)
	return a
}

// location returns where a fault is: the workload if the object is one of its pods.
func location(ref kube.Object, workload string) string {
	s := ref.Name
	if kind, name, _ := kube.SplitWorkload(workload); name != "" {
		s = strings.ToLower(kind) + " " + name
	}
	if ref.Namespace != "" {
		s = ref.Namespace + "/" + s
	}
	if ref.Container != "" {
		s += " (" + ref.Container + ")"
	}
	return s
}

// logExcerpt returns the most useful part of logs: the line of a panic and its cause, else
// the last lines of the first log that has any, else why a log is missing.
func logExcerpt(logs []kube.Log) (text string, isPanic bool) {
	for _, l := range logs {
		if line, cause, ok := panics.FindCause(l.Sample); l.HasPanic && ok {
			text = "log of " + l.Container + ": " + sanitize.Cut(line, maxExcerptLine)
			if cause != "" {
				text += " ⏎ " + sanitize.Cut(cause, maxExcerptLine)
			}
			return text, true
		}
	}
	for _, l := range logs {
		lines := lastLines(l.Sample)
		if len(lines) > 0 {
			return "log of " + l.Container + " ends: " + strings.Join(lines, " ⏎ "), false
		}
	}
	for _, l := range logs {
		if l.Error != "" {
			return "no log of " + l.Container + ": " + sanitize.Cut(l.Error, maxExcerptLine), false
		}
	}
	return "", false
}

// lastLines returns the last lines of a log that are not blank.
func lastLines(sample string) []string {
	var lines []string
	for len(sample) > 0 && len(lines) < maxExcerptLines {
		i := strings.LastIndexByte(sample, '\n')
		if line := strings.TrimSpace(sample[i+1:]); line != "" {
			lines = append([]string{sanitize.Cut(line, maxExcerptLine)}, lines...)
		}
		sample = sample[:max(i, 0)]
	}
	return lines
}
