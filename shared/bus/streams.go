package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	// StreamDeliveries holds which deliveries of webhooks were taken: a message
	// each, without content.
	StreamDeliveries = "DELIVERIES"

	// BucketGateways holds, for each client, up to where its inbox was drained.
	BucketGateways = "gateways"
	// BucketSilences holds what was silenced and what was acknowledged: a document
	// each, under the keys below.
	BucketSilences = "silences"
	// BucketDetector holds the detector's snapshots.
	BucketDetector = "detector"
)

// The keys of BucketSilences, and the stream that it is.
const (
	KeySilences    = "silences"
	KeyAcks        = "acks"
	StreamSilences = "KV_" + BucketSilences
)

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
			Subjects:    []string{AllTelemetry, SubjectIntakeCI, SubjectIntakeAlerts, SubjectIntakeNoise},
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
			// GitHub sends again what is up to 3 days old.
			MaxAge: 4 * day, MaxMsgs: 20_000, MaxMsgsPerSubject: 1,
		},
	}
}

func completed(cfg jetstream.StreamConfig) jetstream.StreamConfig {
	cfg.Storage = jetstream.FileStorage
	cfg.Retention = jetstream.LimitsPolicy
	cfg.Discard = jetstream.DiscardOld
	cfg.AllowDirect = true
	cfg.Duplicates = max(cfg.Duplicates, 2*time.Minute)
	return cfg
}

// ErrIncompatible says that a stream exists in a form that can't be changed to
// ours without destroying what it holds.
var ErrIncompatible = errors.New("incompatible stream")

// Provision creates the streams and buckets that are missing and widens those
// that are narrower than the table. A stream that an operator gave more room
// keeps it. It never deletes anything and never lowers a limit.
func Provision(ctx context.Context, js jetstream.JetStream, log *slog.Logger) error {
	for _, want := range Streams() {
		if err := provisionStream(ctx, js, completed(want), log); err != nil {
			return err
		}
	}
	_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: BucketGateways, Description: "up to where each client's inbox was drained",
		History: 1, TTL: 30 * day, MaxBytes: 16 * mib,
	})
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", BucketGateways, err)
	}
	_, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: BucketSilences, Description: "which alerts are told to nobody for a while",
		History: 1, MaxBytes: 16 * mib,
	})
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", BucketSilences, err)
	}
	_, err = js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: BucketDetector, Description: "snapshots of the detector's state", MaxBytes: 512 * mib,
	})
	if err != nil {
		return fmt.Errorf("create object store %s: %w", BucketDetector, err)
	}
	return nil
}

func provisionStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, log *slog.Logger) error {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, want)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return wrapStream("create", want.Name, err)
		}
		s, err = js.Stream(ctx, want.Name) // another process was faster
	}
	if err != nil {
		return wrapStream("look at", want.Name, err)
	}
	next, changed, err := reconcile(s.CachedInfo().Config, want)
	if err != nil || !changed {
		return err
	}
	log.Info("widening stream", "stream", want.Name)
	_, err = js.UpdateStream(ctx, next)
	return wrapStream("update", want.Name, err)
}

func wrapStream(doing, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s stream %s: %w", doing, name, err)
	}
	return nil
}

// reconcile says what an existing stream must become to serve as want.
func reconcile(have, want jetstream.StreamConfig) (next jetstream.StreamConfig, changed bool, err error) {
	if have.Storage != want.Storage || have.Retention != want.Retention || have.Discard != want.Discard {
		return have, false, fmt.Errorf("%w: %s has other storage, retention or discard rules: move it away or use another NATS account", ErrIncompatible, want.Name)
	}
	next = have
	for _, subject := range want.Subjects {
		if !slices.Contains(next.Subjects, subject) {
			next.Subjects = append(slices.Clone(next.Subjects), subject)
			changed = true
		}
	}
	changed = widen(&next.MaxAge, want.MaxAge) || changed
	changed = widen(&next.MaxBytes, want.MaxBytes) || changed
	changed = widen(&next.MaxMsgs, want.MaxMsgs) || changed
	changed = widen(&next.MaxMsgsPerSubject, want.MaxMsgsPerSubject) || changed
	if next.Duplicates < want.Duplicates {
		next.Duplicates, changed = want.Duplicates, true
	}
	if !next.AllowDirect {
		next.AllowDirect, changed = true, true
	}
	if want.RePublish != nil && (next.RePublish == nil || *next.RePublish != *want.RePublish) {
		next.RePublish, changed = want.RePublish, true
	}
	return next, changed, nil
}

// widen raises a limit to the wanted one. Zero and below mean no limit.
func widen[T ~int64](have *T, want T) bool {
	if *have <= 0 || want > 0 && *have >= want {
		return false
	}
	*have = max(want, 0)
	return true
}
