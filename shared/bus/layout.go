package bus

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// Bounds of a Layout.
const (
	// MaxReplicas is what NATS allows.
	MaxReplicas = 5
	// MaxPartitions bounds the partitions of TELEMETRY: each costs a consumer and the state
	// of a detector, and more partitions than processors are of no use.
	MaxPartitions = 64
	// clusterReplicas survive the loss of one server.
	clusterReplicas = 3
)

// Layout is the distribution of the streams over the servers of an external bus. The zero
// value is right for a single server and for a cluster of three.
type Layout struct {
	// Replicas of all streams and buckets except TELEMETRY, which always has one; 0 means 3
	// where the server is part of a cluster, else 1. A stream with fewer gets more; one with
	// more keeps them.
	Replicas int
	// Partitions of TELEMETRY, by app; 0 leaves it as it is, and means 1 for a new stream. The
	// number can't be changed later.
	Partitions int
}

// Validate returns what no bus can have, or nil.
func (l Layout) Validate() error {
	if l.Replicas < 0 || l.Replicas > MaxReplicas {
		return fmt.Errorf("replicas must be between 1 and %d, or 0 for the default", MaxReplicas)
	}
	if l.Partitions < 0 || l.Partitions > MaxPartitions {
		return fmt.Errorf("partitions must be between 1 and %d, or 0 to leave them", MaxPartitions)
	}
	return nil
}

// replicasOn returns how many replicas are wanted on the bus of a session.
func (l Layout) replicasOn(c *Session) int {
	switch {
	case l.Replicas > 0:
		return l.Replicas
	case c.NC.ConnectedClusterName() != "":
		return clusterReplicas
	}
	return 1
}

// streams returns the streams that a bus with this layout must have.
func (l Layout) streams(replicas int) []jetstream.StreamConfig {
	var all []jetstream.StreamConfig
	for _, cfg := range append(Streams(), buckets()...) {
		cfg.Replicas = replicas
		if cfg.Name == StreamTelemetry {
			// The loss of a server costs an hour of events at most, and three replicas would
			// cost more than all other work of the bus.
			cfg.Replicas = 1
			cfg.SubjectTransform = partitioned(l.Partitions)
		}
		all = append(all, completed(cfg))
	}
	return all
}

// allUnsplit matches the subjects that telemetry is published to.
const allUnsplit = telemetryPrefix + "*.*"

// partitioned returns how the server appends the partition to a subject: by the hash of the
// app, so that all events of one app are in one partition, in order.
func partitioned(partitions int) *jetstream.SubjectTransformConfig {
	if partitions <= 1 {
		return nil
	}
	return &jetstream.SubjectTransformConfig{
		Source:      allUnsplit,
		Destination: fmt.Sprintf(telemetryPrefix+"{{wildcard(1)}}.{{wildcard(2)}}.{{partition(%d,1)}}", partitions),
	}
}

var partitionCount = regexp.MustCompile(`\{\{\s*partition\(\s*(\d+)\s*,\s*1\s*\)\s*\}\}$`)

// partitionsOf returns how many partitions a stream has. The error wraps [ErrIncompatible]
// where its subjects are transformed in another way.
func partitionsOf(t *jetstream.SubjectTransformConfig) (int, error) {
	if t == nil {
		return 1, nil
	}
	if m := partitionCount.FindStringSubmatch(t.Destination); m != nil {
		if of, err := strconv.Atoi(m[1]); err == nil && of > 1 && *t == *partitioned(of) {
			return of, nil
		}
	}
	return 0, fmt.Errorf("%w: %s transforms %s to %s, which is not Tocsin's: move it away or use another NATS account",
		ErrIncompatible, StreamTelemetry, t.Source, t.Destination)
}

// Partitions returns how many partitions TELEMETRY has. The errors are those of
// [Session.Check], or wrap [ErrIncompatible].
func (s *Session) Partitions(ctx context.Context) (int, error) {
	if err := s.checkUsable(); err != nil {
		return 0, err
	}
	var stream jetstream.Stream
	err := s.failOnDenial(ctx, apiInfo+StreamTelemetry, func(ctx context.Context) (err error) {
		stream, err = s.stream(ctx, StreamTelemetry)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, missingStreamError(StreamTelemetry)
	}
	if err != nil {
		return 0, wrapStream("check", StreamTelemetry, err)
	}
	return partitionsOf(stream.CachedInfo().Config.SubjectTransform)
}

// TelemetryOf returns the subjects for the owner of one partition: the events of its apps,
// commands to the noise rules, the time, and for the first partition what belongs to no
// app. It is nil, which matches everything, where there is one partition.
func TelemetryOf(partition, of int) []string {
	if of <= 1 {
		return nil
	}
	subjects := []string{allUnsplit + "." + strconv.Itoa(partition), SubjectIntakeNoise, SubjectIntakeTick}
	if partition == 0 {
		// Messages that arrived before the stream was split are in none: see reconcileSplit.
		subjects = append(subjects, SubjectIntakeCI, SubjectIntakeAlerts, allUnsplit)
	}
	return subjects
}
