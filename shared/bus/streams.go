package bus

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/ci"
)

// The streams and buckets.
const (
	StreamTelemetry = "TELEMETRY"
	StreamCI        = "CI"
	StreamAlerts    = "ALERTS"
	StreamNotices   = "NOTICES"
	// StreamDeliveries holds which deliveries of webhooks were taken: a message for the
	// id and one for the signed body of each, without content.
	StreamDeliveries = "DELIVERIES"
	// StreamKubernetes holds events and faults of clusters.
	StreamKubernetes = "KUBERNETES"

	// BucketGateways holds, for each client, up to where its inbox was drained.
	BucketGateways = "gateways"
	// BucketSilences holds what was silenced and what was acknowledged: a document
	// each, under the keys below.
	BucketSilences = "silences"
	// BucketDetector holds the detector's snapshots.
	BucketDetector = "detector"
	// BucketOwners holds which detector owns which partition of the telemetry.
	BucketOwners = "owners"
	// BucketClusters holds, for each cluster, up to where its events were published.
	BucketClusters = "clusters"
	// BucketKubewatch holds, for each cluster, which kubewatch is the active one and
	// how its watch is. What is not renewed within KubewatchTTL is gone.
	BucketKubewatch = "kubewatch"
)

// StreamKubewatch is the stream that BucketKubewatch is.
const StreamKubewatch = kvPrefix + BucketKubewatch

// The keys of BucketSilences, and the stream that it is.
const (
	KeySilences    = "silences"
	KeyAcks        = "acks"
	StreamSilences = kvPrefix + BucketSilences
)

// KubewatchTTL is how long an active kubewatch that no longer renews its place keeps
// it.
const KubewatchTTL = 10 * time.Second

const (
	mib = 1 << 20
	day = 24 * time.Hour
)

// Streams is the table of streams (contract, section 4). At a limit the oldest
// message is dropped.
func Streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:        StreamTelemetry,
			Description: "accepted events, CI results, alerts of others and noise commands, as the detector folds them",
			Subjects:    []string{AllTelemetry, SubjectIntakeCI, SubjectIntakeAlerts, SubjectIntakeNoise, SubjectIntakeTick},
			MaxAge:      time.Hour, MaxBytes: 256 * mib,
		},
		{
			Name:        StreamCI,
			Description: "the newest CI results",
			Subjects:    []string{allCIResults},
			// The intake deletes down to ci.Kept. A new result is written before
			// what it updates is deleted: at a limit of just as many, every such
			// update would push out another pipeline's result.
			// No limit for each subject: failure, success, failure are three
			// results, and different names can have one subject.
			MaxMsgs: 2 * ci.Kept, MaxBytes: 16 * mib,
		},
		{
			Name:        StreamAlerts,
			Description: "alerts; Nats-Msg-Id is the alert's id",
			Subjects:    []string{AllAlerts},
			MaxAge:      7 * day, MaxBytes: 64 * mib,
			// A detector that lost the answer says an alert again, once the bus is
			// back: that may be later than the 2 min that a server remembers ids.
			Duplicates: time.Hour,
			RePublish:  &jetstream.RePublish{Source: AllAlerts, Destination: AllLiveAlerts},
		},
		{
			Name:        StreamNotices,
			Description: "what agents tell their users",
			Subjects:    []string{AllNotices},
			MaxAge:      7 * day, MaxBytes: 16 * mib,
			RePublish: &jetstream.RePublish{Source: AllNotices, Destination: AllLiveNotices},
		},
		{
			Name:        StreamDeliveries,
			Description: "which deliveries of webhooks were taken",
			Subjects:    []string{allDeliveries},
			// GitHub sends again what is up to 3 days old, and whoever has seen a signed
			// body can send it for ever. These are 10,000 deliveries, two messages each.
			MaxAge: 7 * day, MaxMsgs: 2 * 10_000, MaxMsgsPerSubject: 1,
		},
		{
			Name:        StreamKubernetes,
			Description: "events and faults of Kubernetes clusters; Nats-Msg-Id is cluster uid, event uid, resourceVersion",
			Subjects:    []string{AllKubernetes},
			// Clusters themselves keep events for an hour.
			MaxAge: day, MaxBytes: 128 * mib,
		},
	}
}

// buckets is the table of buckets: the streams that they are, as the client
// library makes them. A bucket that is full takes nothing more.
func buckets() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketGateways, Description: "up to where each client's inbox was drained",
			MaxAge: 30 * day, MaxBytes: 16 * mib,
		}),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketSilences, Description: "which alerts are told to nobody for a while",
			MaxBytes: 16 * mib,
		}),
		deletable(keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketOwners, Description: "which detector owns which partition of the telemetry",
			MaxBytes: 1 * mib,
		})),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketClusters, Description: "up to where each Kubernetes cluster's events were published",
			MaxBytes: 4 * mib,
		}),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketKubewatch, Description: "which kubewatch is active for each cluster, and how it is",
			MaxAge: KubewatchTTL, MaxBytes: 1 * mib,
		}),
		{
			Name: objectPrefix + BucketDetector, Description: "snapshots of the detector's state",
			Subjects: []string{"$O." + BucketDetector + ".C.>", "$O." + BucketDetector + ".M.>"},
			MaxBytes: 512 * mib, Discard: jetstream.DiscardNew, AllowRollup: true,
		},
	}
}

// StreamNames lists all streams that have to be on a bus, also those that are
// buckets.
func StreamNames() []string {
	var names []string
	for _, cfg := range append(Streams(), buckets()...) {
		names = append(names, cfg.Name)
	}
	return names
}

// The prefixes of the streams that buckets are.
const (
	kvPrefix     = "KV_"
	objectPrefix = "OBJ_"
)

// keyValue completes the stream of a bucket that keeps the newest value of each key.
func keyValue(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.Subjects = []string{"$KV." + cfg.Name[len(kvPrefix):] + ".>"}
	cfg.MaxMsgsPerSubject, cfg.Discard = 1, jetstream.DiscardNew
	cfg.AllowRollup, cfg.DenyDelete = true, true
	return cfg
}

// deletable lets single messages be deleted, by their place. Of a bucket's keys a
// mark would stay for each that is deleted the other way.
func deletable(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.DenyDelete = false
	return cfg
}

func completed(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.Storage = jetstream.FileStorage
	cfg.Retention = jetstream.LimitsPolicy
	cfg.AllowDirect = true
	cfg.Duplicates = max(cfg.Duplicates, 2*time.Minute)
	if cfg.MaxAge > 0 { // a server remembers no id for longer than its message
		cfg.Duplicates = min(cfg.Duplicates, cfg.MaxAge)
	}
	return cfg
}
