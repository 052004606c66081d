package investigator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/recent"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// knownTimeout bounds the wait for what is on the bus. What did not arrive by then is named as
// missing.
const knownTimeout = 30 * time.Millisecond

// knownPeriod is how far back faults, CI results and releases are shown.
const knownPeriod = time.Hour

// openPeriod is how old an open alert may be. Many alerts are never resolved.
const openPeriod = 24 * time.Hour

// Bounds of the facts. Texts beyond them are cut, and lists name the number of what they leave out.
const (
	maxKnownSymptoms = 20
	maxKnownAlerts   = 20
	maxKnownMessages = 20
	maxKnownLogs     = 4
	maxKnownReleases = 10
	// maxKnownDetail bounds the detail of one alert of a list, maxKnownMessage the message of
	// an event or a failure, in characters; maxKnownLog is a log's, in bytes.
	maxKnownDetail   = 400
	maxKnownMessage  = 400
	maxKnownLog      = 6 << 10
	maxKnownFailures = 10
)

// The ids of the facts. Evidence cites them, so they stay as they are.
const (
	knownGroup      = "known-group"
	knownAlerts     = "known-alerts"
	knownKubernetes = "known-kubernetes"
	knownLogs       = "known-logs"
	knownCI         = "known-ci"
	knownReleases   = "known-releases"
)

// gatherer collects what Tocsin knows of a session's alert without a model. The configured
// runbook is not part of it: that is in the session's plan.
type gatherer struct {
	window *busWindow
	// mask masks the text of a fact as the session's plan says, after the window's own masking.
	mask func(plan session.Plan, text string) string
	now  func() time.Time
}

// Gather returns the facts, within [knownTimeout] of waiting for the bus.
func (g *gatherer) Gather(ctx context.Context, s session.Submitted) session.Gathered {
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	missing := g.window.catchUp(ctx)
	var known []session.Known
	g.window.view(func(a *recent.Alerts, c *recent.Clusters, r *recent.Results) {
		known = knownFacts(a, c, r, s.Alert, g.now())
	})
	for i := range known {
		known[i].Text = g.mask(s.Plan, known[i].Text)
	}
	return session.Gathered{Known: known, Missing: missing}
}

// knownFacts returns the facts about an alert, or, where it is nil, those that concern no alert.
func knownFacts(alerts *recent.Alerts, clusters *recent.Clusters, results *recent.Results, a *alert.Alert, now time.Time) []session.Known {
	var known []session.Known
	add := func(id, title, text string) {
		if text != "" {
			known = append(known, session.Known{ID: id, Title: title, Text: text})
		}
	}
	app := ""
	if a != nil {
		original := a.AsOriginal()
		app = original.App
		add(knownGroup, "The alert's incident group: likely cause and symptoms", groupText(alerts.GroupOf(original), original))
		open := recent.AlertQuery{App: app, Open: true, Except: original.ID, Since: now.Add(-openPeriod)}
		found, more := alerts.Worst(open, maxKnownAlerts)
		add(knownAlerts, "Other open alerts of the app, the most severe first", alertsText(found, more, "no other alert of app "+app+" is open"))
		workload := workloadOf(original, now)
		messages, more := clusters.Find(workload, maxKnownMessages)
		add(knownKubernetes, "Kubernetes faults and warnings of the workload in the last hour, newest first", messagesText(messages, more))
		workload.Logs = true
		messages, _ = clusters.Find(workload, maxKnownLogs)
		add(knownLogs, "Logs of containers that failed, captured at the fault, newest first", logsText(messages))
	}
	add(knownCI, "CI results of the last hour, newest first", resultsText(results.Newest(now.Add(-knownPeriod))))
	add(knownReleases, "Releases first seen in the last hour, newest first", releasesText(alerts.Releases(app, now.Add(-knownPeriod), maxKnownReleases)))
	return known
}

// workloadOf returns the query for the messages of the workload of an alert: of the one that a
// fault names, or else of the app.
func workloadOf(a alert.Alert, now time.Time) recent.ClusterQuery {
	value := func(key string) string {
		text, _ := a.Context[key].(string)
		return text
	}
	q := recent.ClusterQuery{MinRank: alert.Warning.Rank(), Since: now.Add(-knownPeriod)}
	name := cmp.Or(value(workloadKey), value(objectKey))
	if a.Category != alert.Kubernetes || name == "" {
		q.App = a.App
		return q
	}
	q.Cluster, q.Namespace, q.Workload = value(alert.ClusterKey), value(alert.NamespaceKey), name
	return q
}

// The Context keys of the object of a Kubernetes fault, see docs/reference/alerts.md.
const (
	workloadKey = "workload"
	objectKey   = "name"
)

func groupText(g recent.Group, a alert.Alert) string {
	if g.Cause == nil {
		return fmt.Sprintf("no other alert began within %.0f s of this one and names the same endpoint, page or deploy", alert.CauseWindow.Seconds())
	}
	var b strings.Builder
	if g.Cause.ID == a.ID {
		b.WriteString("this alert is the likely cause of the symptoms below\n")
	} else {
		b.WriteString("likely cause: " + alertLine(*g.Cause, alert.MaxDetail) + "\n")
	}
	if g.Cause.Reason != "" {
		b.WriteString("why: " + g.Cause.Reason + "\n")
	}
	for i, s := range g.Symptoms {
		if i == maxKnownSymptoms {
			fmt.Fprintf(&b, "and %d more symptoms\n", len(g.Symptoms)-i)
			break
		}
		own := ""
		if s.ID == a.ID {
			own = " (this alert)"
		}
		b.WriteString("symptom" + own + ": " + alertLine(s, maxKnownDetail) + "\n")
	}
	return b.String()
}

// alertLine returns an alert in one line.
func alertLine(a alert.Alert, detail int) string {
	text := fmt.Sprintf("%s %s %s, app %s, id %s", alert.FormatTime(a.Timestamp), a.Severity, a.Category, a.App, a.ID)
	if n := a.Occurrences(); n > 1 {
		text += fmt.Sprintf(", %d times", n)
	}
	text += ": " + a.Title
	if a.Detail != "" {
		text += " | " + sanitize.Cut(a.Detail, detail)
	}
	return text
}

func alertsText(found []recent.Alert, more int, none string) string {
	if len(found) == 0 {
		return none
	}
	var b strings.Builder
	for _, a := range found {
		b.WriteString(alertLine(a.Alert, maxKnownDetail) + "\n")
	}
	leftOut(&b, more, "alerts")
	return b.String()
}

func leftOut(b *strings.Builder, more int, what string) {
	if more > 0 {
		fmt.Fprintf(b, "and %d more %s\n", more, what)
	}
}

func messagesText(found []recent.ClusterMessage, more int) string {
	var b strings.Builder
	for _, m := range found {
		b.WriteString(messageLine(m) + "\n")
	}
	leftOut(&b, more, "messages")
	return b.String()
}

// messageLine returns a message of a cluster in one line.
func messageLine(m recent.ClusterMessage) string {
	text := alert.FormatTime(m.Received) + " cluster " + m.Cluster
	switch {
	case m.Watch != nil && m.Watch.Degraded:
		return text + ": the cluster can't be watched: " + sanitize.Cut(m.Watch.Error, maxKnownMessage)
	case m.Watch != nil:
		return text + ": the cluster can be watched again"
	case m.Event == nil:
		return text
	}
	o := m.Event.InvolvedObject
	if o.Namespace != "" {
		text += ", namespace " + o.Namespace
	}
	text += ", " + o.Kind + "/" + o.Name
	if f := m.Fault; f != nil {
		text += ", fault " + f.Kind
		if f.State == kube.StateOver {
			text += " (over)"
		}
		if f.Workload != "" {
			text += ", workload " + f.Workload
		}
		if o.Container != "" {
			text += ", container " + o.Container
		}
		if f.Restarts > 0 {
			text += fmt.Sprintf(", %d restarts", f.Restarts)
		}
		if f.ExitCode != 0 {
			text += fmt.Sprintf(", exit code %d", f.ExitCode)
		}
		if f.Reason != "" {
			text += ", reason " + f.Reason
		}
	}
	text += ": " + m.Event.Reason
	if m.Event.Count > 1 {
		text += fmt.Sprintf(" (%d times)", m.Event.Count)
	}
	return text + ": " + sanitize.Cut(m.Event.Message, maxKnownMessage)
}

func logsText(found []recent.ClusterMessage) string {
	var b strings.Builder
	for _, m := range found {
		o := m.Event.InvolvedObject
		for _, l := range m.Logs {
			if l.Sample == "" {
				continue
			}
			when := "current"
			if l.Previous {
				when = "before the restart"
			}
			fmt.Fprintf(&b, "%s %s/%s, container %s (%s):\n%s\n", alert.FormatTime(m.Received), o.Namespace, o.Name, l.Container, when, kube.Tail([]byte(l.Sample), maxKnownLog))
		}
	}
	return b.String()
}

func resultsText(found []recent.Result) string {
	if len(found) == 0 {
		return "no CI result arrived in the last hour"
	}
	var b strings.Builder
	for _, r := range found {
		fmt.Fprintf(&b, "%s %s: %s of %s, ref %s, commit %s", alert.FormatTime(r.Received), r.Status, cmp.Or(r.Name, "a run"), r.Source, cmp.Or(r.Ref, "unknown"), cmp.Or(r.Commit, "unknown"))
		if r.Summary != "" {
			b.WriteString(": " + sanitize.Cut(r.Summary, maxKnownMessage))
		}
		b.WriteString("\n")
		for i, f := range r.Failures {
			if i == maxKnownFailures {
				fmt.Fprintf(&b, "  and %d more failures\n", len(r.Failures)-i)
				break
			}
			b.WriteString("  failed: " + failureLine(f) + "\n")
		}
	}
	return b.String()
}

func failureLine(f ci.Failure) string {
	return sanitize.Cut(f.Name, maxKnownMessage) + ": " + sanitize.Cut(f.Message, maxKnownMessage)
}

func releasesText(found []recent.Alert) string {
	if len(found) == 0 {
		return "no alert of the last hour names a release that was just deployed"
	}
	var b strings.Builder
	for _, a := range found {
		release, _ := a.Context[alert.DeployKey].(string)
		fmt.Fprintf(&b, "release %s of app %s was first seen shortly before %s, as alert %s says: %s\n", release, a.App, alert.FormatTime(a.First), a.ID, a.Title)
	}
	return b.String()
}
