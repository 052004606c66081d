package bus

import (
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// Role is the identity of a session on the bus. It has a key and permissions.
type Role string

// The roles.
const (
	RoleIngest    Role = "ingest"
	RoleDetector  Role = "detector"
	RoleGateway   Role = "gateway"
	RoleDashboard Role = "dashboard"
	RoleKubewatch Role = "kubewatch"
	// RoleInvestigator investigates alerts.
	RoleInvestigator Role = "investigator"
	// RoleProvisioner creates and changes streams, and so may do anything with them. On an
	// embedded bus it is the process that runs the server, and its key never leaves the
	// memory; on an external one it is for tocsin provision alone.
	RoleProvisioner Role = "provisioner"
)

// Roles lists the roles of services: those that get a credential file from tocsin up.
func Roles() []Role {
	return []Role{RoleIngest, RoleDetector, RoleGateway, RoleDashboard, RoleKubewatch, RoleInvestigator}
}

// KeyVariable is the environment variable by which a server's configuration, such as that
// in deploy/nats, gets the public key of a role.
func (r Role) KeyVariable() string { return "TOCSIN_NKEY_" + strings.ToUpper(string(r)) }

// Permissions lists the subjects that a role may publish and subscribe to.
type Permissions struct {
	Publish, Subscribe []string
	// Replies is how many messages the role may send to the reply inbox of a request,
	// within ReplyWithin; 0 for none.
	Replies     int
	ReplyWithin time.Duration
}

// Permissions returns what a role may do. This is the table to review for security.
//
// A role that may create consumers could make the server deliver anywhere. The dashboard may
// not: it reads what is republished, and a few streams by direct get, from an account of
// its own; see [AccountDashboards] for what requests alone could do. The other roles are
// trusted like the process that runs the server.
func (r Role) Permissions() Permissions {
	p := Permissions{Publish: r.publish(), Subscribe: slices.Concat(r.subscribe(), subjects(r.inboxPrefix()+".>"))}
	if r.answers() {
		p.Replies, p.ReplyWithin = 1, queryTimeout
		if r == RoleInvestigator {
			p.ReplyWithin = investigateTimeout
		}
	}
	return p
}

// publish lists what a role may publish. Requests to JetStream are publishes as well.
func (r Role) publish() []string {
	switch r {
	case RoleIngest:
		return slices.Concat(
			subjects(AllTelemetry, SubjectIntakeCI, SubjectIntakeAlerts, allCIResults, allDeliveries),
			streamInfo(),
			// It deletes results that a newer one updates.
			readBySequence(StreamCI), deleteMessages(StreamCI),
			// It checks whether a delivery was accepted before.
			readBySubject(StreamDeliveries, allDeliveries),
		)
	case RoleDetector:
		return slices.Concat(
			subjects(AllAlerts, SubjectIntakeNoise, SubjectIntakeTick),
			consume(), follow(StreamTelemetry), follow(StreamAlerts),
			objects(BucketDetector),
			// Which detector owns which partition, and what only the owner knows.
			keys(BucketOwners), deleteMessages(kvPrefix+BucketOwners), subjects(allPartitionQueries),
		)
	case RoleGateway:
		return slices.Concat(
			subjects(AllNotices, allServiceRequests),
			detectorQueries(), subjects(query.SubjectHealth), subjects(AllInvestigate),
			consume(), follow(StreamAlerts), follow(StreamCI), follow(StreamNotices),
			read(StreamAlerts),
			writeKeys(BucketGateways), readBySubject(kvPrefix+BucketGateways, ">"),
			keys(BucketSilences), follow(StreamSilences),
			follow(StreamKubernetes), read(StreamKubernetes),
			follow(StreamKubewatch), read(StreamKubewatch),
		)
	case RoleKubewatch:
		return slices.Concat(
			subjects(AllKubernetes, SubjectIntakeAlerts),
			// It reads what it published last, to publish nothing twice.
			consume(), follow(StreamKubernetes), read(StreamKubernetes),
			// Its checkpoints, and the lease of each cluster.
			keys(BucketClusters), keys(BucketKubewatch),
		)
	case RoleInvestigator:
		return slices.Concat(
			// Revisions of alerts, and what models say while they say it.
			subjects(AllAlerts, AllLiveInvestigations),
			detectorQueries(), subjects(query.SubjectHealth),
			consume(), follow(StreamAlerts), read(StreamAlerts), getMessages(StreamAlerts),
			follow(StreamKubernetes), read(StreamKubernetes), follow(StreamCI),
			follow(StreamSilences), read(StreamSilences),
			// Its sessions, their texts and its queue.
			subjects(allInvestigations),
			keep(StreamInvestigations), keep(StreamInvestigationTexts), keep(StreamInvestigationQueue),
			keys(BucketInvestigator), keys(BucketInvestigatorLeases), keys(BucketInvestigatorAnswers), getMessages(kvPrefix+BucketInvestigatorAnswers),
			keys(BucketInvestigatorKeys), getMessages(StreamInvestigatorKeys), deleteMessages(StreamInvestigatorKeys),
		)
	case RoleDashboard:
		return dashboardRequests()
	case RoleProvisioner:
		return subjects("$JS.API.>")
	default: // an unknown role may do nothing
		return nil
	}
}

// subscribe lists what a role may subscribe to beside its reply inbox.
func (r Role) subscribe() []string {
	switch r {
	case RoleIngest, RoleGateway, RoleKubewatch:
		return subjects(allServiceRequests, query.SubjectHealth)
	case RoleInvestigator:
		return subjects(allServiceRequests, query.SubjectHealth, AllInvestigate, AllLiveInvestigations)
	case RoleDetector:
		return subjects(
			allServiceRequests, query.SubjectHealth,
			query.SubjectEvents, query.SubjectStatus, query.SubjectNoise, query.SubjectVitals, allPartitionQueries,
		)
	case RoleDashboard:
		return liveSubjects()
	default:
		return nil
	}
}

// answers reports whether a role answers requests, in any reply inbox.
func (r Role) answers() bool {
	return slices.Contains([]Role{RoleIngest, RoleDetector, RoleGateway, RoleKubewatch, RoleInvestigator}, r)
}

// inboxPrefix is where a role receives replies. Each service has its own, so that the plain
// _INBOX of the dashboards shows them nothing that the others read.
func (r Role) inboxPrefix() string {
	if r == RoleDashboard {
		return "_INBOX"
	}
	return "_INBOX_" + string(r)
}

const (
	// allServiceRequests is where services of nats.go's micro package are discovered.
	allServiceRequests = "$SRV.>"
	// allPartitionQueries are queries to the owner of one partition.
	allPartitionQueries = "query.partition.>"
)

// liveSubjects are what a dashboard may subscribe to.
func liveSubjects() []string { return subjects(AllLiveAlerts, AllLiveNotices) }

// dashboardRequests are what a dashboard may request: alerts by their sequence, and the
// documents of the silences.
func dashboardRequests() []string {
	return slices.Concat(readBySequence(StreamAlerts), readBySubject(StreamSilences, keyPrefix(BucketSilences)+"*"))
}

// The builders below return the subjects of one permission each.

func subjects(list ...string) []string { return list }

// streamInfo permits asking for the state of any stream.
func streamInfo() []string { return subjects(apiInfo + "*") }

// detectorQueries permits asking detectors.
func detectorQueries() []string {
	return subjects(query.SubjectEvents, query.SubjectStatus, query.SubjectNoise, query.SubjectVitals)
}

// consume permits what every consumer needs, see follow.
func consume() []string {
	return slices.Concat(subjects("$JS.API.INFO"), streamInfo(), subjects("$JS.API.STREAM.NAMES", "$JS.FC.>", "$JS.ACK.>"))
}

// follow permits making consumers of a stream and reading from them.
func follow(stream string) []string {
	return subjects("$JS.API.CONSUMER.*."+stream+".>", "$JS.API.CONSUMER.MSG.NEXT."+stream+".>")
}

// readBySequence permits direct gets from a sequence on.
func readBySequence(stream string) []string { return subjects(apiDirectGet + stream) }

// readBySubject permits direct gets of the newest message of each subject that matches.
func readBySubject(stream, subject string) []string {
	return subjects(apiDirectGet + stream + "." + subject)
}

// read permits all direct gets of a stream.
func read(stream string) []string {
	return slices.Concat(readBySequence(stream), readBySubject(stream, ">"))
}

// keep permits reading a stream in all ways, and purging its subjects.
func keep(stream string) []string {
	return slices.Concat(follow(stream), read(stream), getMessages(stream), subjects(apiPurge+stream))
}

// getMessages permits reading single messages at the leader of a stream.
func getMessages(stream string) []string { return subjects(apiGet + stream) }

// deleteMessages permits deleting single messages of a stream.
func deleteMessages(stream string) []string { return subjects(apiDelete + stream) }

// writeKeys permits writing and deleting the keys of a bucket.
func writeKeys(bucket string) []string { return subjects(keyPrefix(bucket) + ">") }

// keys permits writing and reading the keys of a bucket.
func keys(bucket string) []string { return slices.Concat(writeKeys(bucket), read(kvPrefix+bucket)) }

// objects permits writing and reading the objects of a bucket.
func objects(bucket string) []string {
	stream := objectPrefix + bucket
	return slices.Concat(
		subjects("$O."+bucket+".>"), readBySubject(stream, ">"), follow(stream),
		subjects(apiPurge+stream, apiGet+stream),
	)
}
