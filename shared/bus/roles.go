package bus

import (
	"github.com/nats-io/nats-server/v2/server"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// Role is who a connection is on the bus, and so what it may do there.
type Role string

// The roles. The provisioner is the process that embeds the server; its key
// never leaves its memory.
const (
	RoleIngest    Role = "ingest"
	RoleDetector  Role = "detector"
	RoleGateway   Role = "gateway"
	RoleDashboard Role = "dashboard"
	provisioner   Role = "provisioner"
)

// Roles lists the roles that get a credential file.
func Roles() []Role { return []Role{RoleIngest, RoleDetector, RoleGateway, RoleDashboard} }

// inboxPrefix is where a role receives replies. Each service has its own, so
// that the plain _INBOX of the read-only dashboards shows them nothing of what
// the others read.
func (r Role) inboxPrefix() string {
	if r == RoleDashboard {
		return "_INBOX"
	}
	return "_INBOX_" + string(r)
}

// permissions is the table of what each role may publish and subscribe to.
// A role that may create consumers could make the server deliver anywhere, so
// the dashboard may not: it hears what is republished, and reads ALERTS by direct
// get alone.
func (r Role) permissions() *server.Permissions {
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
	case RoleDetector:
		pub = []string{
			AllAlerts, SubjectIntakeNoise,
			"$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.NAMES", "$JS.FC.>", "$JS.ACK.>",
			"$JS.API.CONSUMER.*." + StreamTelemetry + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamTelemetry + ".>",
			"$JS.API.CONSUMER.*." + StreamAlerts + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamAlerts + ".>",
			"$O." + BucketDetector + ".>", "$JS.API.DIRECT.GET.OBJ_" + BucketDetector + ".>",
			"$JS.API.CONSUMER.*.OBJ_" + BucketDetector + ".>", "$JS.API.CONSUMER.MSG.NEXT.OBJ_" + BucketDetector + ".>",
			"$JS.API.STREAM.PURGE.OBJ_" + BucketDetector, "$JS.API.STREAM.MSG.GET.OBJ_" + BucketDetector,
		}
		sub = []string{"$SRV.>", query.SubjectEvents, query.SubjectStatus, query.SubjectNoise}
	case RoleGateway:
		pub = []string{
			AllNotices, query.SubjectEvents, query.SubjectStatus, query.SubjectNoise, "$SRV.>",
			"$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.NAMES", "$JS.FC.>", "$JS.ACK.>",
			"$JS.API.CONSUMER.*." + StreamAlerts + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamAlerts + ".>",
			"$JS.API.CONSUMER.*." + StreamCI + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamCI + ".>",
			"$JS.API.CONSUMER.*." + StreamNotices + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamNotices + ".>",
			"$JS.API.DIRECT.GET." + StreamAlerts, "$JS.API.DIRECT.GET." + StreamAlerts + ".>",
			"$KV." + BucketGateways + ".>", "$JS.API.DIRECT.GET.KV_" + BucketGateways + ".>",
			// It changes what is silenced, follows it, and reads all of it at once.
			"$KV." + BucketSilences + ".>", "$JS.API.DIRECT.GET." + StreamSilences, "$JS.API.DIRECT.GET." + StreamSilences + ".>",
			"$JS.API.CONSUMER.*." + StreamSilences + ".>", "$JS.API.CONSUMER.MSG.NEXT." + StreamSilences + ".>",
		}
	case RoleDashboard:
		pub = []string{
			"$JS.API.DIRECT.GET." + StreamAlerts,
			// What is silenced it may see, a document at a time.
			"$JS.API.DIRECT.GET." + StreamSilences + ".$KV." + BucketSilences + ".*",
		}
		sub = []string{AllLiveAlerts, AllLiveNotices}
	default:
		return nil // the provisioner may do everything
	}
	sub = append(sub, r.inboxPrefix()+".>")
	p := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: pub},
		Subscribe: &server.SubjectPermission{Allow: sub},
	}
	if r == RoleDetector { // it answers queries, to whatever inbox asks
		p.Response = &server.ResponsePermission{MaxMsgs: 1, Expires: queryTimeout}
	}
	return p
}
