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
	// StreamDeliveries holds the accepted deliveries of webhooks: a message for the id and
	// one for the signed body of each, without content.
	StreamDeliveries = "DELIVERIES"
	// StreamKubernetes holds events and faults of clusters.
	StreamKubernetes = "KUBERNETES"
	// StreamInvestigations holds the facts of each investigation session, on one subject;
	// StreamInvestigationTexts their long texts, in chunks; StreamInvestigationQueue the
	// attempts that a worker has to take or has taken.
	StreamInvestigations     = "INVESTIGATIONS"
	StreamInvestigationTexts = "INVESTIGATION_TEXTS"
	StreamInvestigationQueue = "INVESTIGATION_QUEUE"

	// BucketGateways holds the inbox position of each client.
	BucketGateways = "gateways"
	// BucketSilences holds the silences and the acknowledgements: a document each, under
	// the keys below.
	BucketSilences = "silences"
	// BucketDetector holds the detector's snapshots.
	BucketDetector = "detector"
	// BucketOwners holds the owner of each partition of the telemetry.
	BucketOwners = "owners"
	// BucketClusters holds the checkpoint of each cluster: up to where it was published.
	BucketClusters = "clusters"
	// BucketKubewatch holds the lease of each cluster: which kubewatch is active, and the
	// state of its watch. A lease that is not renewed within KubewatchTTL expires.
	BucketKubewatch = "kubewatch"
	// BucketInvestigator holds documents of the investigator, such as the position of its
	// triggers.
	BucketInvestigator = "investigator"
	// BucketInvestigatorKeys holds the open session of each dedup_key.
	BucketInvestigatorKeys = "investigator-keys"
	// BucketInvestigatorAnswers holds the answers to requests with an Idempotency-Key.
	BucketInvestigatorAnswers = "investigator-answers"
	// BucketInvestigatorLeases holds the leases of the sweep and of the triggers. A lease that is not renewed
	// within InvestigatorTTL expires.
	BucketInvestigatorLeases = "investigator-leases"
)

// StreamInvestigatorKeys is the stream of BucketInvestigatorKeys.
const StreamInvestigatorKeys = kvPrefix + BucketInvestigatorKeys

// InvestigatorTTL is how long the lease of an investigator is kept that no longer renews it.
const InvestigatorTTL = 10 * time.Second

// StreamKubewatch is the stream of BucketKubewatch.
const StreamKubewatch = kvPrefix + BucketKubewatch

// The keys of BucketSilences, and its stream.
const (
	KeySilences    = "silences"
	KeyAcks        = "acks"
	StreamSilences = kvPrefix + BucketSilences
)

// KubewatchTTL is how long the lease of a kubewatch is kept that no longer renews it.
const KubewatchTTL = 10 * time.Second

const (
	mib = 1 << 20
	day = 24 * time.Hour
)

// Streams returns the table of streams (docs/reference/subjects.md). At a limit the oldest
// message is dropped, except where Discard is DiscardNew: then the new one is refused.
func Streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:        StreamTelemetry,
			Description: "accepted events, CI results, alerts of other systems and noise commands, in the order in which the detector reads them",
			Subjects:    []string{AllTelemetry, SubjectIntakeCI, SubjectIntakeAlerts, SubjectIntakeNoise, SubjectIntakeTick},
			MaxAge:      time.Hour, MaxBytes: 256 * mib,
		},
		{
			Name:        StreamCI,
			Description: "the newest CI results",
			Subjects:    []string{allCIResults},
			// Ingest deletes down to ci.MaxResults. It writes a new result before it deletes
			// the one that this updates: with a limit of ci.MaxResults, every update would push
			// out the result of another pipeline. There is no limit for each subject:
			// failure, success, failure are three results, and different names can have one
			// subject.
			MaxMsgs: 2 * ci.MaxResults, MaxBytes: 16 * mib,
		},
		{
			Name:        StreamAlerts,
			Description: "alerts; Nats-Msg-Id is the alert's id",
			Subjects:    []string{AllAlerts},
			MaxAge:      7 * day, MaxBytes: 64 * mib,
			// A detector that did not get the acknowledgement publishes an alert again once
			// the bus is restored. That may be later than the 2 min for which a server
			// remembers ids by default.
			Duplicates: time.Hour,
			RePublish:  &jetstream.RePublish{Source: AllAlerts, Destination: AllLiveAlerts},
		},
		{
			Name:        StreamNotices,
			Description: "messages from agents to their users",
			Subjects:    []string{AllNotices},
			MaxAge:      7 * day, MaxBytes: 16 * mib,
			RePublish: &jetstream.RePublish{Source: AllNotices, Destination: AllLiveNotices},
		},
		{
			Name:        StreamDeliveries,
			Description: "accepted deliveries of webhooks",
			Subjects:    []string{allDeliveries},
			// GitHub redelivers for up to 3 days, and an observer of a signed body can send
			// it at any time. These are 10,000 deliveries, two messages each.
			MaxAge: 7 * day, MaxMsgs: 2 * 10_000, MaxMsgsPerSubject: 1,
		},
		{
			Name:        StreamKubernetes,
			Description: "events and faults of Kubernetes clusters; Nats-Msg-Id is cluster uid, event uid, resourceVersion",
			Subjects:    []string{AllKubernetes},
			// Clusters keep events for an hour.
			MaxAge: day, MaxBytes: 128 * mib,
		},
		{
			Name:        StreamInvestigations,
			Description: "facts of investigation sessions, a subject for each session",
			Subjects:    []string{InvestigationSubject("*")},
			// The investigator deletes whole ended sessions: half a session would be worth
			// nothing, so no limit drops single messages.
			Discard: jetstream.DiscardNew,
		},
		{
			Name:        StreamInvestigationTexts,
			Description: "long texts of investigation sessions, in chunks",
			Subjects:    []string{InvestigationTextSubject("*", "*", "*")},
			// A chunk's subject has the digest of its text: another message there is the same
			// chunk again.
			MaxMsgsPerSubject: 1,
		},
		{
			Name:        StreamInvestigationQueue,
			Description: "attempts of investigation sessions that are queued or under way",
			Subjects:    []string{InvestigationQueueSubject("*", "*")},
			Retention:   jetstream.WorkQueuePolicy,
			// An attempt is queued once.
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			MaxBytes: 16 * mib,
		},
	}
}

// buckets returns the table of buckets as streams, as the client library makes them. A full
// bucket refuses writes.
func buckets() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketGateways, Description: "inbox position of each client",
			MaxAge: 30 * day, MaxBytes: 16 * mib,
		}),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketSilences, Description: "silences and acknowledgements",
			MaxBytes: 16 * mib,
		}),
		deletable(keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketOwners, Description: "owner of each partition of the telemetry",
			MaxBytes: 1 * mib,
		})),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketClusters, Description: "checkpoint of each Kubernetes cluster: up to where its events were published",
			MaxBytes: 4 * mib,
		}),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketKubewatch, Description: "lease of each Kubernetes cluster: the active kubewatch and its state",
			MaxAge: KubewatchTTL, MaxBytes: 1 * mib,
		}),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketInvestigator, Description: "documents of the investigator",
			MaxBytes: 4 * mib,
		}),
		deletable(keyValue(jetstream.StreamConfig{
			Name: StreamInvestigatorKeys, Description: "open investigation session of each dedup_key",
			MaxBytes: 4 * mib,
		})),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketInvestigatorAnswers, Description: "answers of the investigator to requests with an Idempotency-Key",
			MaxAge: day, MaxBytes: 64 * mib,
		}),
		keyValue(jetstream.StreamConfig{
			Name: kvPrefix + BucketInvestigatorLeases, Description: "leases of the investigator",
			MaxAge: InvestigatorTTL, MaxBytes: 1 * mib,
		}),
		{
			Name: objectPrefix + BucketDetector, Description: "snapshots of the detector's state",
			Subjects: []string{"$O." + BucketDetector + ".C.>", "$O." + BucketDetector + ".M.>"},
			MaxBytes: 512 * mib, Discard: jetstream.DiscardNew, AllowRollup: true,
		},
	}
}

// StreamNames lists all streams that a bus must have, those of buckets included.
func StreamNames() []string {
	var names []string
	for _, cfg := range append(Streams(), buckets()...) {
		names = append(names, cfg.Name)
	}
	return names
}

// The prefixes of the streams of buckets.
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

// deletable permits deleting single messages by their sequence. Deleting a key of a bucket
// would leave a marker.
func deletable(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.DenyDelete = false
	return cfg
}

func completed(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.Storage = jetstream.FileStorage
	cfg.AllowDirect = true
	cfg.Duplicates = max(cfg.Duplicates, 2*time.Minute)
	if cfg.MaxAge > 0 { // a server remembers no id for longer than its message
		cfg.Duplicates = min(cfg.Duplicates, cfg.MaxAge)
	}
	return cfg
}
