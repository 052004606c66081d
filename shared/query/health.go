package query

import "time"

// SubjectHealth is answered by every running service for itself: the requester collects the
// answers for a moment.
const SubjectHealth = "query.health"

// Health is the health of one service, as it reports it.
type Health struct {
	// Service is its role on the bus: ingest, detector, gateway, dashboard, kubewatch or
	// investigator. ID identifies its instances.
	Service string `json:"service"`
	ID      string `json:"id"`
	// Host is the name of the machine, PID the process.
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// OK means that the service works; Reason is why it does not.
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`

	// Only the part of the service is set.
	Ingest       *IngestHealth       `json:"ingest,omitempty"`
	Detector     *DetectorHealth     `json:"detector,omitempty"`
	Gateway      *GatewayHealth      `json:"gateway,omitempty"`
	Dashboard    *DashboardHealth    `json:"dashboard,omitempty"`
	Kubewatch    *KubewatchHealth    `json:"kubewatch,omitempty"`
	Investigator *InvestigatorHealth `json:"investigator,omitempty"`
}

// IngestHealth is the health of an ingest service.
type IngestHealth struct {
	// Pressure is the memory pressure of bodies being read: normal, soft or hard. Circuit is
	// the state of the circuit breaker for the bus: closed, half_open or open.
	Pressure string `json:"pressure"`
	Circuit  string `json:"circuit"`
	// Accepted counts the events since the start.
	Accepted uint64 `json:"accepted"`
	// RefusedOrigins are other sites whose requests it refused within the last hour, the
	// newest first.
	RefusedOrigins []RefusedOrigin `json:"refused_origins,omitempty"`
}

// RefusedOrigin is a site whose pages an ingest service refuses, because TOCSIN_ALLOWED_ORIGINS does
// not list it.
type RefusedOrigin struct {
	Origin string `json:"origin"`
	// Count is how many requests were refused since the first one that is remembered.
	Count uint64 `json:"count"`
	// Last is when the newest was refused.
	Last time.Time `json:"last"`
}

// DetectorHealth is the health of a detector.
type DetectorHealth struct {
	DetectorStatus
	// Partitions are those that it owns now. A detector that owns none is on standby.
	Partitions []int `json:"partitions"`
	// PartitionCount is the number of partitions of the telemetry.
	PartitionCount int `json:"of"`
}

// GatewayHealth is the health of a gateway for one client.
type GatewayHealth struct {
	// Client is the MCP client's name and version, or the name it was given.
	Client string `json:"client"`
	// Protocol is the version of MCP that was agreed on, empty before.
	Protocol string `json:"protocol,omitempty"`
	// Inbox is how many alerts are pending.
	Inbox int `json:"inbox"`
	// Streaming means that notifications are enabled, with the settings and counts that
	// configure shows.
	Streaming       bool     `json:"streaming"`
	Events          []string `json:"events,omitempty"`
	ThrottleSeconds int      `json:"throttle_seconds,omitempty"`
	SeverityMin     string   `json:"severity_min,omitempty"`
	URL             string   `json:"url,omitempty"`
	Notified        int      `json:"notify_count"`
	Pending         int      `json:"pending"`
	Suppressed      int      `json:"suppressed"`
	Dropped         int      `json:"dropped"`
	// Subscriptions is the number of its subscriptions to Kubernetes clusters.
	Subscriptions int `json:"kubernetes_subscriptions,omitempty"`
}

// DashboardHealth is the health of a dashboard.
type DashboardHealth struct {
	// Readers are connected to its event stream now. Dropped counts the alerts since the
	// start that slow readers did not get.
	Readers int    `json:"readers"`
	Dropped uint64 `json:"dropped"`
}

// KubewatchHealth is the health of a kubewatch.
type KubewatchHealth struct {
	Clusters []ClusterHealth `json:"clusters"`
}

// ClusterHealth is the state of the watch of one cluster.
type ClusterHealth struct {
	Cluster string `json:"cluster"`
	// Active means that this kubewatch watches it; another one is on standby.
	Active bool `json:"active"`
	// Degraded means that the cluster can't be watched; Error is why.
	Degraded bool   `json:"degraded"`
	Error    string `json:"error,omitempty"`
	// Events, Faults and Logs count what was published since the start.
	Events uint64 `json:"events"`
	Faults uint64 `json:"faults"`
	Logs   uint64 `json:"logs"`
}

// InvestigatorHealth is the health of an investigator.
type InvestigatorHealth struct {
	// Queued and Running count the sessions of all investigators on the bus that wait for a
	// worker, and that have begun and not ended.
	Queued  int `json:"queued"`
	Running int `json:"running"`
	// ModelsDown are the entries of llm_providers whose last requests failed, so that their
	// breaker is open; ServersDown are the MCP servers that can't be used.
	ModelsDown  []string `json:"models_down,omitempty"`
	ServersDown []string `json:"servers_down,omitempty"`
}
