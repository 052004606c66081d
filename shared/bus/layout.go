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
	// MaxPartitions bounds what TELEMETRY is split into: each costs a consumer and a
	// detector's state, and more than there are processors for is of no use.
	MaxPartitions = 64
	// clusterReplicas survive the loss of one server.
	clusterReplicas = 3
)

// Layout is how the streams lie on the servers of an external bus. Its zero value
// is right for a single server and for a cluster of three.
type Layout struct {
	// Replicas of alerts, CI results, notices, deliveries and all buckets: 3 for 0
	// where the server is part of a cluster, else 1. TELEMETRY always has one. What
	// has fewer is given more; what has more keeps them.
	Replicas int
	// Partitions of TELEMETRY, by app. With 0 it stays as it is, and has one where it
	// is made anew. The number can't be changed later.
	Partitions int
}

// Validate says what no bus can have.
func (l Layout) Validate() error {
	if l.Replicas < 0 || l.Replicas > MaxReplicas {
		return fmt.Errorf("replicas must be between 1 and %d, or 0 for the usual", MaxReplicas)
	}
	if l.Partitions < 0 || l.Partitions > MaxPartitions {
		return fmt.Errorf("partitions must be between 1 and %d, or 0 for as they are", MaxPartitions)
	}
	return nil
}

// replicasOn is how many copies are wanted on the bus that c is connected to.
func (l Layout) replicasOn(c *Session) int {
	switch {
	case l.Replicas > 0:
		return l.Replicas
	case c.NC.ConnectedClusterName() != "":
		return clusterReplicas
	}
	return 1
}

// streams is the table of what has to be on a bus that is laid out like this.
func (l Layout) streams(replicas int) []jetstream.StreamConfig {
	var all []jetstream.StreamConfig
	for _, cfg := range append(Streams(), buckets()...) {
		cfg.Replicas = replicas
		if cfg.Name == StreamTelemetry {
			// What it lost with a server would be an hour of events at most, and three
			// copies of each would cost more than all else that the bus does.
			cfg.Replicas = 1
			cfg.SubjectTransform = partitioned(l.Partitions)
		}
		all = append(all, completed(cfg))
	}
	return all
}

// allUnsplit are the subjects that telemetry is published to.
const allUnsplit = telemetryPrefix + "*.*"

// partitioned is how the server writes the partition behind a subject: the app's
// hash decides, so that everything of one app is in one partition, in order.
func partitioned(of int) *jetstream.SubjectTransformConfig {
	if of <= 1 {
		return nil
	}
	return &jetstream.SubjectTransformConfig{
		Source:      allUnsplit,
		Destination: fmt.Sprintf(telemetryPrefix+"{{wildcard(1)}}.{{wildcard(2)}}.{{partition(%d,1)}}", of),
	}
}

var partitionCount = regexp.MustCompile(`\{\{\s*partition\(\s*(\d+)\s*,\s*1\s*\)\s*\}\}$`)

// partitionsOf is how many partitions a stream has. Its error wraps ErrIncompatible
// where its subjects are transformed in a way that is not ours.
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

// Partitions is how many partitions TELEMETRY has. Its errors are those of Check,
// or wrap ErrIncompatible.
func (s *Session) Partitions(ctx context.Context) (int, error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	var stream jetstream.Stream
	err := s.allowed(ctx, apiInfo+StreamTelemetry, func(ctx context.Context) (err error) {
		stream, err = s.stream(ctx, StreamTelemetry)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, missing(StreamTelemetry)
	}
	if err != nil {
		return 0, wrapStream("look at", StreamTelemetry, err)
	}
	return partitionsOf(stream.CachedInfo().Config.SubjectTransform)
}

// TelemetryOf is what the owner of one partition follows: the events of its apps,
// commands to the noise rules, the time, and for the first what belongs to no app. It is nil,
// which is everything, where there is one partition.
func TelemetryOf(partition, of int) []string {
	if of <= 1 {
		return nil
	}
	subjects := []string{allUnsplit + "." + strconv.Itoa(partition), SubjectIntakeNoise, SubjectIntakeTick}
	if partition == 0 {
		// What came in before the stream was split is in none: see reconcileSplit.
		subjects = append(subjects, SubjectIntakeCI, SubjectIntakeAlerts, allUnsplit)
	}
	return subjects
}
