package query

import "time"

// SubjectHealth is answered by every service that runs, each for itself: who
// asks there collects the answers for a moment.
const SubjectHealth = "query.health"

// Health is how one service is, as it says itself.
type Health struct {
	// Service is its role on the bus: ingest, detector, gateway, dashboard or kubewatch. ID
	// tells its instances apart.
	Service string `json:"service"`
	ID      string `json:"id"`
	// Host is the name of the machine, PID the process.
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// OK says that it does its work; Reason says why not.
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`

	// One of these is set, that of the service.
	Ingest    *IngestHealth    `json:"ingest,omitempty"`
	Detector  *DetectorHealth  `json:"detector,omitempty"`
	Gateway   *GatewayHealth   `json:"gateway,omitempty"`
	Dashboard *DashboardHealth `json:"dashboard,omitempty"`
	Kubewatch *KubewatchHealth `json:"kubewatch,omitempty"`
}

// IngestHealth is what an intake says of itself.
type IngestHealth struct {
	// Pressure is that of the bodies under way: normal, soft or hard. Circuit is
	// the state of the way to the bus: closed, half_open or open.
	Pressure string `json:"pressure"`
	Circuit  string `json:"circuit"`
	// Accepted counts the events since the start.
	Accepted uint64 `json:"accepted"`
	// RefusedOrigins are pages of other sites whose requests it refused within the last
	// hour, the newest first.
	RefusedOrigins []RefusedOrigin `json:"refused_origins,omitempty"`
}

// RefusedOrigin is a site whose pages an intake refuses, because the setting
// TOCSIN_ALLOWED_ORIGINS does not name it.
type RefusedOrigin struct {
	Origin string `json:"origin"`
	// Count is how many requests were refused since the first that is remembered.
	Count uint64 `json:"count"`
	// Last is when the newest was refused.
	Last time.Time `json:"last"`
}

// DetectorHealth is what a detector says of itself.
type DetectorHealth struct {
	DetectorStatus
	// Partitions are those that it owns now, of so many. One that owns none
	// stands by.
	Partitions []int `json:"partitions"`
	Of         int   `json:"of"`
}

// GatewayHealth is what a gateway says of one client.
type GatewayHealth struct {
	// Client is the MCP client's name and version, or what it was named.
	Client string `json:"client"`
	// Protocol is the version of MCP that was agreed on, empty before.
	Protocol string `json:"protocol,omitempty"`
	// Inbox is how many alerts pend.
	Inbox int `json:"inbox"`
	// Streaming says whether the stream of notifications is on, with the settings
	// and counts that configure shows.
	Streaming       bool     `json:"streaming"`
	Events          []string `json:"events,omitempty"`
	ThrottleSeconds int      `json:"throttle_seconds,omitempty"`
	SeverityMin     string   `json:"severity_min,omitempty"`
	URL             string   `json:"url,omitempty"`
	Notified        int      `json:"notify_count"`
	Pending         int      `json:"pending"`
	Suppressed      int      `json:"suppressed"`
	Dropped         int      `json:"dropped"`
	// Subscriptions is how many it has to what Kubernetes clusters say.
	Subscriptions int `json:"kubernetes_subscriptions,omitempty"`
}

// DashboardHealth is what a dashboard says of itself.
type DashboardHealth struct {
	// Readers are connected to its stream now. Dropped counts alerts that slow
	// ones were not sent, since the start.
	Readers int    `json:"readers"`
	Dropped uint64 `json:"dropped"`
}

// KubewatchHealth is what a kubewatch says of the clusters that it watches.
type KubewatchHealth struct {
	Clusters []ClusterHealth `json:"clusters"`
}

// ClusterHealth is how the watch of one cluster is.
type ClusterHealth struct {
	Cluster string `json:"cluster"`
	// Active says that this kubewatch watches it; else it stands by.
	Active bool `json:"active"`
	// Degraded says that the cluster can't be watched, and Error why.
	Degraded bool   `json:"degraded"`
	Error    string `json:"error,omitempty"`
	// Events, Faults and Logs count what was published since the start.
	Events uint64 `json:"events"`
	Faults uint64 `json:"faults"`
	Logs   uint64 `json:"logs"`
}
