package bus

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// The subjects of section 4 of the contract, and those of our own.
const (
	telemetryPrefix  = "telemetry."
	ciResultPrefix   = "ci.result."
	alertsPrefix     = "alerts."
	livePrefix       = "live."
	noticesPrefix    = "notices."
	deliveryPrefix   = "delivery."
	kubernetesPrefix = "kubernetes."

	// SubjectIntakeCI carries every accepted CI result to the detector. The CI
	// stream itself updates and drops results, so a detector that was away
	// would miss some.
	SubjectIntakeCI = "intake.ci"
	// SubjectIntakeNoise carries commands to the noise rules, in the same log
	// as the events they act on, so that a replay gives the same alerts.
	SubjectIntakeNoise = "intake.noise"
	// SubjectIntakeTick tells the time to all partitions of the telemetry, some of
	// which may hear of nothing else for long. Its messages have no content.
	SubjectIntakeTick = "intake.tick"
	// SubjectIntakeAlerts carries what other monitoring systems raised. The
	// detector tells it: nobody else publishes alerts.
	SubjectIntakeAlerts = "intake.alerts"

	// AllTelemetry, AllAlerts, AllLiveAlerts, AllNotices and AllLiveNotices are
	// the subjects to subscribe to for everything of a kind.
	AllTelemetry  = telemetryPrefix + ">"
	AllAlerts     = alertsPrefix + ">"
	AllLiveAlerts = livePrefix + AllAlerts
	AllNotices    = noticesPrefix + ">"
	// AllLiveNotices is what NOTICES republishes, for dashboards.
	AllLiveNotices = livePrefix + AllNotices
	// AllKubernetes is everything that clusters say.
	AllKubernetes = kubernetesPrefix + ">"
	allCIResults  = ciResultPrefix + ">"
	allDeliveries = deliveryPrefix + ">"
)

// HeaderSender names the product that sent a telemetry message.
const HeaderSender = "Tocsin-Sender"

// maxToken is the longest subject token, in characters.
const maxToken = 64

// Token makes text fit for one token of a subject: lower case, [a-z0-9_-],
// anything else becomes _, at most 64 characters. Empty text becomes _.
// Different texts can give the same token: identity is in the payload.
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

// TelemetrySubject is where events of one app and kind are published, as one
// JSON array a message.
func TelemetrySubject(app string, kind telemetry.Kind) string {
	return telemetryPrefix + Token(app) + "." + Token(string(kind))
}

// CIResultSubject is where a result of one pipeline, commit and status is
// stored. Different pipelines can have one subject, see Token.
func CIResultSubject(source, commit, name, status string) string {
	return ciResultPrefix + Token(source) + "." + Token(commit) + "." + Token(name) + "." + Token(status)
}

// AlertSubject is where an alert is published.
func AlertSubject(a alert.Alert) string {
	return alertsPrefix + Token(a.App) + "." + Token(string(a.Category)) + "." + Token(string(a.Severity))
}

// NoticeSubject is where an agent's message to its user is published.
func NoticeSubject(context string) string { return noticesPrefix + Token(context) }

// DeliverySubject is where it is noted that a webhook's delivery was taken. The
// id is its sender's, of whatever length and characters.
func DeliverySubject(sender, id string) string {
	sum := sha256.Sum256([]byte(id))
	return deliveryPrefix + Token(sender) + "." + hex.EncodeToString(sum[:16])
}

// BodySubject is where it is noted that a signed body of a webhook was taken, whatever
// the id it came with.
func BodySubject(sender string, body []byte) string {
	sum := sha256.Sum256(body)
	return deliveryPrefix + Token(sender) + ".body." + hex.EncodeToString(sum[:])
}

// The tokens that stand in a subject for the type of an event where it is none.
const (
	kubernetesFault = "fault"
	kubernetesWatch = "watch"
)

// KubernetesSubject is where what a cluster says is published:
// kubernetes.<cluster>.<namespace>.<type>.<kind>.<reason> for an event,
// kubernetes.<cluster>.<namespace>.fault.<kind>.<fault> for a fault, and
// kubernetes.<cluster>._cluster.watch.cluster.<degraded|recovered> for the watch
// itself. Different names can give one token, so identity is in the payload.
func KubernetesSubject(m *kube.Message) string {
	at := kubernetesPrefix + Token(m.Cluster) + "."
	switch {
	case m.Watch != nil:
		state := "recovered"
		if m.Watch.Degraded {
			state = "degraded"
		}
		return at + kube.ClusterScope + "." + kubernetesWatch + ".cluster." + state
	case m.Fault != nil:
		return at + Token(m.Event.InvolvedObject.Scope()) + "." + kubernetesFault + "." + Token(m.Event.InvolvedObject.Kind) + "." + Token(m.Fault.Kind)
	default:
		return at + Token(m.Event.InvolvedObject.Scope()) + "." + Token(m.Event.Type) + "." + Token(m.Event.InvolvedObject.Kind) + "." + Token(m.Event.Reason)
	}
}

// KubernetesFilter is the subject to follow for some of what clusters say. What is
// empty matches everything. Kind is that of the involved object.
type KubernetesFilter struct{ Cluster, Namespace, Type, Kind string }

// Events is the subject of events. It also matches faults where Type is empty: those
// are told apart by their payload.
func (f KubernetesFilter) Events() string { return f.subject(f.Type) }

// Faults is the subject of faults.
func (f KubernetesFilter) Faults() string { return f.subject(kubernetesFault) }

// Everything is the subject of all that a cluster says, or all of them do; Namespace,
// Type and Kind are of no account.
func (f KubernetesFilter) Everything() string { return kubernetesPrefix + tokenOrAny(f.Cluster) + ".>" }

// Watch is the subject of how the watch itself is.
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
