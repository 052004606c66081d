package mcpserver

import (
	"slices"
	"strings"
	"sync"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/services/gateway/toolschema"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// The names of the tools that are listed once a service was seen: investigate an investigator, the
// others a kubewatch.
const (
	toolInvestigate       = "investigate"
	toolSubscribe         = "events_subscribe"
	toolUnsubscribe       = "events_unsubscribe"
	toolListSubscriptions = "events_list_subscriptions"
)

// kubernetesTools are the names of the tools for Kubernetes.
var kubernetesTools = []string{toolSubscribe, toolUnsubscribe, toolListSubscriptions}

// enums are the tables that both the schemas and the validation of arguments use.
func enums() toolschema.Enums {
	return toolschema.Enums{
		"what":             names(history.Whats()),
		"severity":         names(alert.Severities()),
		"category":         names(alert.Categories()),
		"filter":           notifier.Filters(),
		"channel":          names(delivery.Channels()),
		"action":           names(actions()),
		"streaming_action": names(streamingActions()),
		"noise_action":     names([]query.NoiseAction{query.NoiseList, query.NoiseAdd, query.NoiseRemove, query.NoiseAutoDetect}),
		"noise_kind":       names([]telemetry.Kind{telemetry.KindLog, telemetry.KindNetwork}),
		"level":            names([]notify.Level{notify.Info, notify.Warn, notify.Error}),
		"mode":             names([]kubernetes.Mode{kubernetes.Events, kubernetes.Faults}),
		"event_type":       {kube.TypeNormal, kube.TypeWarning},
	}
}

func names[S ~string](values []S) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

func newSchema[T any]() (*toolschema.Schema[T], error) { return toolschema.New[T](enums()) }

// tools returns all tools, those that need a further service last. The table is constant, so an error
// in it is a programming error.
var tools = sync.OnceValue(func() []tool {
	var all []tool
	add := func(t tool, err error) {
		if err != nil {
			panic(err)
		}
		all = append(all, t)
	}
	add(newTool("observe",
		"Show what happens in the watched apps, newest first, and deliver the alerts raised since your last call (in a second block, each once). "+
			"what: status (default): whether each app is fine or sends nothing; alerts: the alert history; errors, logs, network, vitals, actions, security: events; ci: the latest CI results; kubernetes: events of watched clusters, and faults with logs; investigations: the newest, with summaries; noise: the rules that hide noise. "+
			"Answers have at most 40 KiB: truncated.left_out counts older entries, before reads on.",
		(*server).observe))
	add(newTool("configure",
		"Enable or disable alert notifications (action streaming); list or change the rules that hide noise (noise); empty the inbox of pending alerts (clear); ack: suppress repeats of one alert until it escalates, resolves or 24 h pass (unack undoes it); silence: suppress matching alerts for some minutes (silence_list, unsilence); show the health of Tocsin itself (health).",
		(*server).configure))
	add(newTool("configure_streaming",
		"Get alerts as notifications while you work: enable (replaces the whole configuration), disable, or status.",
		(*server).configureStreaming))
	add(newTool("notify",
		"Show the user a message while you go on working: in their terminal, on their dashboard, and wherever else they set up.",
		(*server).notify))
	add(newTool(toolInvestigate,
		"Have agents on the server look for the cause of an alert (alert_id) or of a problem that you describe (data), and return their conclusion, for you to check. It takes minutes: wait_seconds holds the call, session_id reads it again later.",
		(*server).investigate))
	add(newTool(toolSubscribe,
		"Get the messages of a Kubernetes cluster as notifications while you work: mode events (each event) or faults (crashes, crash loops, image pulls, out of memory, nodes not ready, stalled deployments, failed jobs; the containers' logs follow under the same faultId). Needs a namespace or another filter.",
		(*server).subscribe))
	add(newTool(toolUnsubscribe,
		"End a Kubernetes subscription of this session: none of its notifications follow.",
		(*server).unsubscribe))
	add(newTool(toolListSubscriptions,
		"List the Kubernetes subscriptions of this session, what they delivered, and whether their clusters can be watched (degraded).",
		(*server).listSubscriptions))
	return all
})

// Reference returns the reference of all tools in Markdown, for docs/reference/mcp.md.
func Reference() string {
	var b strings.Builder
	for _, t := range tools() {
		b.WriteString("### `" + t.name + "`\n\n" + t.description + "\n\n")
		if slices.Contains(kubernetesTools, t.name) {
			b.WriteString("Listed once a `tocsin kubewatch` was seen.\n\n")
		}
		if t.name == toolInvestigate {
			b.WriteString("Listed once an investigator was seen.\n\n")
		}
		b.WriteString(t.reference + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
