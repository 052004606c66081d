package external

import (
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// labelVersion is the label with the version of the app to which an object belongs.
const labelVersion = "app.kubernetes.io/version"

// faultTitles has the titles of each kind of fault and of its end. Those of the empty string
// are for kinds that only a newer kubewatch knows.
var faultTitles = map[string]struct{ firing, resolved string }{
	kube.Crash:             {"Crash", "Crash is over"},
	kube.CrashLoop:         {"Crash loop", "Crash loop is over"},
	kube.ImagePull:         {"Image can't be pulled", "Image pull failure is over"},
	kube.OutOfMemory:       {"Out of memory", "No longer out of memory"},
	kube.NodeNotReady:      {"Node not ready", "Node ready again"},
	kube.DeploymentStalled: {"Deployment stalled", "Stalled deployment is over"},
	kube.JobFailed:         {"Job failed", "Job failure is over"},
	kube.Warning:           {"Warning", "Warning is over"},
	kube.WatchDegraded:     {"Cluster can't be watched", "Cluster is watched again"},
	"":                     {"Fault", "Fault is over"},
}

// faultAlert returns the alert about a fault in a Kubernetes cluster. Its end has the same
// dedup key.
func faultAlert(e *external.Alert) alert.Alert {
	f := e.Fault
	titles, known := faultTitles[f.Fault]
	if !known {
		titles = faultTitles[""]
	}
	severity, title := e.Severity, titles.firing
	switch {
	case e.State == external.StateResolved:
		severity, title = alert.Info, titles.resolved
	case f.Fault == kube.Warning && e.Name != "": // the reason of the event
		title += " " + e.Name
	}
	return alert.Alert{
		Severity: severity, Category: alert.Kubernetes, Source: e.Source,
		Title: title + ": " + objectName(f), Detail: detail(e), Context: faultContext(e),
		DedupKey: faultKey(e),
	}
}

// faultKey returns the dedup key kubernetes:<cluster>:<namespace>:<kind>/<name>:<fault>. For
// a pod of a workload it names the workload, because the same fault in all its pods is one
// problem. The container follows the name, and the reason of a warning follows the fault.
// Colons in names are replaced, because readers split the key at colons.
func faultKey(e *external.Alert) string {
	f, plain := e.Fault, strings.NewReplacer(":", "_")
	object, fault := f.Kind+"/"+f.Name, f.Fault
	if f.Workload != "" {
		object = f.Workload
	}
	if f.Container != "" {
		object += "/" + f.Container
	}
	if f.Fault == kube.Warning && e.Name != "" {
		fault += "/" + e.Name
	}
	return strings.Join([]string{"kubernetes", f.Cluster, plain.Replace(f.Namespace), plain.Replace(object), plain.Replace(fault)}, ":")
}

// describesEnd reports whether the sender's text at the end of an alert is about the end and
// not about the firing. The text of kubewatch is, because it watches the objects.
func describesEnd(e *external.Alert) bool {
	return e.Fault != nil && e.Fault.Fault != kube.WatchDegraded
}

// objectName names the object of a fault as kubectl does. For a pod of a workload it names the
// workload.
func objectName(f *external.Fault) string {
	name := f.Name
	if kind, workload, _ := kube.SplitWorkload(f.Workload); workload != "" {
		name = strings.ToLower(kind) + " " + workload
	}
	if f.Namespace != "" {
		name = f.Namespace + "/" + name
	}
	if f.Container != "" {
		name += " (" + f.Container + ")"
	}
	return name
}

func faultContext(e *external.Alert) map[string]any {
	f := e.Fault
	workload, version := "", ""
	if kind, name, v := kube.SplitWorkload(f.Workload); name != "" {
		workload, version = kind+"/"+name, v
	}
	c := map[string]any{alert.ClusterKey: f.Cluster, "kind": f.Kind, "name": f.Name, alert.FaultKey: f.Fault}
	for name, value := range map[string]string{
		alert.NamespaceKey: f.Namespace, "container": f.Container, "workload": workload, "workload_version": version, "fault_id": f.ID,
		// Readers list a fault under the CI run that brought the version.
		alert.ReleaseKey: e.Labels[labelVersion],
	} {
		if value != "" {
			c[name] = value
		}
	}
	if f.Panic {
		c["panic"] = true
	}
	if len(e.Labels) > 0 {
		c["labels"] = visible(e.Labels)
	}
	return c
}
