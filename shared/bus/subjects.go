package bus

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// The subjects (docs/reference/subjects.md).
const (
	telemetryPrefix  = "telemetry."
	ciResultPrefix   = "ci.result."
	alertsPrefix     = "alerts."
	livePrefix       = "live."
	noticesPrefix    = "notices."
	deliveryPrefix   = "delivery."
	kubernetesPrefix = "kubernetes."
	// investigationPrefix is what everything of one investigation session begins with.
	investigationPrefix = "investigation."

	// SubjectIntakeCI carries every accepted CI result to the detector. The stream CI drops
	// updated results, so a detector that reads late would miss some.
	SubjectIntakeCI = "intake.ci"
	// SubjectIntakeNoise carries commands to the noise rules, in the same log as the events
	// that they act on, so that a replay gives the same alerts.
	SubjectIntakeNoise = "intake.noise"
	// SubjectIntakeTick carries the time to all partitions of the telemetry: some may get
	// nothing else for long. Its messages have no content.
	SubjectIntakeTick = "intake.tick"
	// SubjectIntakeAlerts carries alerts of other monitoring systems to the detector, which
	// alone publishes alerts.
	SubjectIntakeAlerts = "intake.alerts"

	// AllTelemetry, AllAlerts, AllLiveAlerts, AllNotices and AllLiveNotices match everything
	// of a kind.
	AllTelemetry  = telemetryPrefix + ">"
	AllAlerts     = alertsPrefix + ">"
	AllLiveAlerts = livePrefix + AllAlerts
	AllNotices    = noticesPrefix + ">"
	// AllLiveNotices are notices as the stream republishes them, for dashboards.
	AllLiveNotices = livePrefix + AllNotices
	// AllKubernetes matches all messages of clusters.
	AllKubernetes = kubernetesPrefix + ">"
	// AllLiveInvestigations are the chunks of a model's answers, see
	// [LiveInvestigationSubject].
	AllLiveInvestigations = livePrefix + "investigations.>"
	allInvestigations     = investigationPrefix + ">"
	// SubjectInvestigateSubmit carries submissions of gateways to an investigator, which
	// answers with the session's id; SubjectInvestigateGet asks for one session, and
	// SubjectInvestigateList for the newest. AllInvestigate matches them.
	SubjectInvestigateSubmit = "investigate.submit"
	SubjectInvestigateGet    = "investigate.get"
	SubjectInvestigateList   = "investigate.list"
	AllInvestigate           = "investigate.*"

	allCIResults  = ciResultPrefix + ">"
	allDeliveries = deliveryPrefix + ">"
)

// HeaderSender is the header with the product that sent a telemetry message.
const HeaderSender = "Tocsin-Sender"

// maxToken is the longest subject token, in characters.
const maxToken = 64

// Token returns text as one token of a subject: in lower case, of [a-z0-9_-], with _ for
// anything else, of at most 64 characters. Empty text becomes _. Different texts can give
// the same token: identity is in the payload.
func Token(text string) string {
	if isToken(text) {
		return text
	}
	out := make([]byte, 0, maxToken)
	for _, r := range text {
		if len(out) == maxToken {
			break
		}
		switch {
		case r >= 'A' && r <= 'Z':
			out = append(out, byte(r-'A'+'a'))
		case r < 0x80 && isTokenByte(byte(r)):
			out = append(out, byte(r))
		default:
			out = append(out, '_')
		}
	}
	if len(out) == 0 {
		return "_"
	}
	return string(out)
}

func isToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return true
}

func isTokenByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

// TelemetrySubject returns the subject of events of one app and kind. A message has a JSON
// array of events.
func TelemetrySubject(app string, kind telemetry.Kind) string {
	return telemetryPrefix + Token(app) + "." + Token(string(kind))
}

// CIResultSubject returns the subject of a CI result. Different pipelines can have one
// subject, see [Token].
func CIResultSubject(source, commit, name, status string) string {
	return ciResultPrefix + Token(source) + "." + Token(commit) + "." + Token(name) + "." + Token(status)
}

// AlertSubject returns the subject of an alert.
func AlertSubject(a alert.Alert) string {
	return alertsPrefix + Token(a.App) + "." + Token(string(a.Category)) + "." + Token(string(a.Severity))
}

// AlertSubjectOfAnySeverity returns the filter of the subjects that an alert and its revisions have:
// only the severity may change.
func AlertSubjectOfAnySeverity(a alert.Alert) string {
	return alertsPrefix + Token(a.App) + "." + Token(string(a.Category)) + ".*"
}

// NoticeSubject returns the subject of an agent's message to its user.
func NoticeSubject(context string) string { return noticesPrefix + Token(context) }

// InvestigationSubject returns the subject of an investigation session's facts. The id must
// be a valid token, as a ULID is; so it is for the subjects below.
func InvestigationSubject(id string) string { return investigationPrefix + id }

// InvestigationTextSubject returns the subject of one chunk of a session's long text, or of
// all chunks of all its texts, with digest and chunk "*".
func InvestigationTextSubject(id, digest, chunk string) string {
	return investigationPrefix + id + ".text." + digest + "." + chunk
}

// InvestigationQueueSubject returns the subject of the message that queues one attempt of a
// session, or of all attempts, with attempt "*".
func InvestigationQueueSubject(id, attempt string) string {
	return investigationPrefix + id + ".queued." + attempt
}

// LiveInvestigationSubject returns the subject of the chunks of models' answers in a session.
// No stream stores them.
func LiveInvestigationSubject(id string) string { return livePrefix + "investigations." + id }

// DeliverySubject returns the subject that marks a webhook's delivery as accepted. The id is
// the sender's, of any length and characters.
func DeliverySubject(sender, id string) string {
	sum := sha256.Sum256([]byte(id))
	return deliveryPrefix + Token(sender) + "." + hex.EncodeToString(sum[:16])
}

// BodySubject returns the subject that marks a signed body of a webhook as accepted, under
// any id.
func BodySubject(sender string, body []byte) string {
	sum := sha256.Sum256(body)
	return deliveryPrefix + Token(sender) + ".body." + hex.EncodeToString(sum[:])
}

// The tokens in place of the type of an event, for messages that are none.
const (
	kubernetesFault = "fault"
	kubernetesWatch = "watch"
)

// KubernetesSubject returns the subject of a message of a cluster:
// kubernetes.<cluster>.<namespace>.<type>.<kind>.<reason> for an event,
// kubernetes.<cluster>.<namespace>.fault.<kind>.<fault> for a fault, and
// kubernetes.<cluster>._cluster.watch.cluster.<degraded|recovered> for the watch
// itself. Different names can give one token, so identity is in the payload.
func KubernetesSubject(m *kube.Message) string {
	prefix := kubernetesPrefix + Token(m.Cluster) + "."
	switch {
	case m.Watch != nil:
		state := "recovered"
		if m.Watch.Degraded {
			state = "degraded"
		}
		return prefix + kube.ClusterScope + "." + kubernetesWatch + ".cluster." + state
	case m.Fault != nil:
		return prefix + Token(m.Event.InvolvedObject.Scope()) + "." + kubernetesFault + "." + Token(m.Event.InvolvedObject.Kind) + "." + Token(m.Fault.Kind)
	default:
		return prefix + Token(m.Event.InvolvedObject.Scope()) + "." + Token(m.Event.Type) + "." + Token(m.Event.InvolvedObject.Kind) + "." + Token(m.Event.Reason)
	}
}

// KubernetesFilter selects messages of clusters by subject. An empty field matches
// everything. Kind is that of the involved object.
type KubernetesFilter struct{ Cluster, Namespace, Type, Kind string }

// Events returns the subject of events. Where Type is empty it matches faults as well, which
// have another payload.
func (f KubernetesFilter) Events() string { return f.subject(f.Type) }

// Faults returns the subject of faults.
func (f KubernetesFilter) Faults() string { return f.subject(kubernetesFault) }

// Everything returns the subject of all messages of a cluster, or of all clusters. Namespace,
// Type and Kind are ignored.
func (f KubernetesFilter) Everything() string { return kubernetesPrefix + tokenOrAny(f.Cluster) + ".>" }

// Watch returns the subject of the state of the watch.
func (f KubernetesFilter) Watch() string {
	return kubernetesPrefix + tokenOrAny(f.Cluster) + "." + kube.ClusterScope + "." + kubernetesWatch + ".>"
}

func (f KubernetesFilter) subject(class string) string {
	return kubernetesPrefix + tokenOrAny(f.Cluster) + "." + tokenOrAny(f.Namespace) + "." + tokenOrAny(class) + "." + tokenOrAny(f.Kind) + ".*"
}

func tokenOrAny(name string) string {
	if name == "" {
		return "*"
	}
	return Token(name)
}
