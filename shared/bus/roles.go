package bus

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// Role is who a connection is on the bus, and so what it may do there.
type Role string

// The roles.
const (
	RoleIngest    Role = "ingest"
	RoleDetector  Role = "detector"
	RoleGateway   Role = "gateway"
	RoleDashboard Role = "dashboard"
	// RoleKubewatch is who tells of Kubernetes clusters.
	RoleKubewatch Role = "kubewatch"
	// RoleProvisioner makes and changes streams, and so may do anything with them.
	// On an embedded bus it is the process that embeds it, and its key never leaves
	// the memory; on an external one it is for tocsin provision alone.
	RoleProvisioner Role = "provisioner"
)

// Roles lists the roles of services: those that get a credential file from
// tocsin up.
func Roles() []Role {
	return []Role{RoleIngest, RoleDetector, RoleGateway, RoleDashboard, RoleKubewatch}
}

// inboxPrefix is where a role receives replies. Each service has its own, so
// that the plain _INBOX of the read-only dashboards shows them nothing of what
// the others read.
func (r Role) inboxPrefix() string {
	if r == RoleDashboard {
		return "_INBOX"
	}
	return "_INBOX_" + string(r)
}

const (
	// allServiceAsks is where nats.go's micro services are discovered.
	allServiceAsks = "$SRV.>"
	// allPartitionQueries are queries to the owner of one partition.
	allPartitionQueries = "query.partition.>"
)

// liveSubjects are what a dashboard hears.
func liveSubjects() []string { return []string{AllLiveAlerts, AllLiveNotices} }

// lookSubjects are what a dashboard may ask: for alerts by their sequence, and for
// what is silenced, a document at a time.
func lookSubjects() []string {
	return []string{apiDirectGet + StreamAlerts, apiDirectGet + StreamSilences + ".$KV." + BucketSilences + ".*"}
}

// Permissions lists the subjects that a role may publish and subscribe to.
type Permissions struct {
	Publish, Subscribe []string
	// Replies is how many messages the role may send to the reply inbox of a request,
	// within ReplyWithin; 0 for none.
	Replies     int
	ReplyWithin time.Duration
}

// Permissions is the table of what each role may publish and subscribe to.
// A role that may create consumers could make the server deliver anywhere, so
// the dashboard may not: it hears what is republished, and reads ALERTS by direct
// get alone, from an account of its own. The others are trusted like the process
// that embeds the server: see AccountDashboards for what each could do by its
// questions alone.
func (r Role) Permissions() Permissions {
	var pub, sub []string
	switch r {
	case RoleIngest:
		pub = []string{
			AllTelemetry, SubjectIntakeCI, SubjectIntakeAlerts, allCIResults, allDeliveries, "$JS.API.STREAM.INFO.*",
			// It deletes what a newer result updates, see Conn.Stored and Delete.
			apiDirectGet + StreamCI, apiDelete + StreamCI,
			// Of a delivery it asks whether it was taken, see Conn.Has.
			apiDirectGet + StreamDeliveries + "." + allDeliveries,
		}
		sub = []string{allServiceAsks, query.SubjectHealth}
	case RoleDetector:
		pub = []string{
			AllAlerts, SubjectIntakeNoise, SubjectIntakeTick,
			"$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.NAMES", "$JS.FC.>", "$JS.ACK.>",
			"$JS.API.CONSUMER.*." + StreamTelemetry + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamTelemetry + ".>",
			"$JS.API.CONSUMER.*." + StreamAlerts + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamAlerts + ".>",
			"$O." + BucketDetector + ".>", "$JS.API.DIRECT.GET.OBJ_" + BucketDetector + ".>",
			"$JS.API.CONSUMER.*.OBJ_" + BucketDetector + ".>", "$JS.API.CONSUMER.MSG.NEXT.OBJ_" + BucketDetector + ".>",
			"$JS.API.STREAM.PURGE.OBJ_" + BucketDetector, "$JS.API.STREAM.MSG.GET.OBJ_" + BucketDetector,
			// Who owns which partition, and what only its owner knows.
			"$KV." + BucketOwners + ".>", apiDirectGet + kvPrefix + BucketOwners, apiDirectGet + kvPrefix + BucketOwners + ".>",
			apiDelete + kvPrefix + BucketOwners, allPartitionQueries,
		}
		sub = []string{
			allServiceAsks, query.SubjectHealth,
			query.SubjectEvents, query.SubjectStatus, query.SubjectNoise, query.SubjectVitals, allPartitionQueries,
		}
	case RoleGateway:
		pub = []string{
			AllNotices, allServiceAsks,
			query.SubjectEvents, query.SubjectStatus, query.SubjectNoise, query.SubjectVitals, query.SubjectHealth,
			"$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.NAMES", "$JS.FC.>", "$JS.ACK.>",
			"$JS.API.CONSUMER.*." + StreamAlerts + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamAlerts + ".>",
			"$JS.API.CONSUMER.*." + StreamCI + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamCI + ".>",
			"$JS.API.CONSUMER.*." + StreamNotices + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamNotices + ".>",
			"$JS.API.DIRECT.GET." + StreamAlerts, "$JS.API.DIRECT.GET." + StreamAlerts + ".>",
			"$KV." + BucketGateways + ".>", "$JS.API.DIRECT.GET.KV_" + BucketGateways + ".>",
			// It changes what is silenced, follows it, and reads all of it at once.
			"$KV." + BucketSilences + ".>", "$JS.API.DIRECT.GET." + StreamSilences, "$JS.API.DIRECT.GET." + StreamSilences + ".>",
			"$JS.API.CONSUMER.*." + StreamSilences + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamSilences + ".>",
			// It follows what clusters say, and which of them are watched.
			"$JS.API.CONSUMER.*." + StreamKubernetes + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamKubernetes + ".>",
			apiDirectGet + StreamKubernetes, apiDirectGet + StreamKubernetes + ".>",
			"$JS.API.CONSUMER.*." + kvPrefix + BucketKubewatch + ".>", "$JS.API.CONSUMER.MSG.NEXT." + kvPrefix + BucketKubewatch + ".>",
			apiDirectGet + kvPrefix + BucketKubewatch, apiDirectGet + kvPrefix + BucketKubewatch + ".>",
		}
		sub = []string{allServiceAsks, query.SubjectHealth}
	case RoleKubewatch:
		pub = []string{
			AllKubernetes, SubjectIntakeAlerts,
			"$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.NAMES", "$JS.FC.>", "$JS.ACK.>",
			// It reads what it published last, to publish nothing twice.
			"$JS.API.CONSUMER.*." + StreamKubernetes + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamKubernetes + ".>",
			apiDirectGet + StreamKubernetes, apiDirectGet + StreamKubernetes + ".>",
			// Up to where it came, and which of several it is that speaks.
			"$KV." + BucketClusters + ".>", apiDirectGet + kvPrefix + BucketClusters, apiDirectGet + kvPrefix + BucketClusters + ".>",
			"$KV." + BucketKubewatch + ".>", apiDirectGet + kvPrefix + BucketKubewatch, apiDirectGet + kvPrefix + BucketKubewatch + ".>",
		}
		sub = []string{allServiceAsks, query.SubjectHealth}
	case RoleDashboard:
		pub, sub = lookSubjects(), liveSubjects()
	case RoleProvisioner:
		pub = []string{"$JS.API.>"}
	default: // nobody we know
	}
	sub = append(sub, r.inboxPrefix()+".>")
	p := Permissions{Publish: pub, Subscribe: sub}
	switch r {
	case RoleIngest, RoleDetector, RoleGateway, RoleKubewatch: // they answer, to whatever inbox asks
		p.Replies, p.ReplyWithin = 1, queryTimeout
	default:
	}
	return p
}
