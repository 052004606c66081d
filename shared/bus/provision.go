package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrIncompatible is returned when a stream exists in a form that can't be changed to the
// wanted one without destroying its content.
var ErrIncompatible = errors.New("incompatible stream")

// ErrUnprovisioned is returned when the bus lacks a stream that the session's role may not
// create.
var ErrUnprovisioned = errors.New("the bus is not prepared: run tocsin provision")

// Provision creates the missing streams and buckets, and raises the limits of those that
// have lower ones than the table. Higher limits of an operator stay. It never deletes
// anything.
//
// Without anything to change it only reads, which each role but the dashboard may. Where
// the role may not make a change, the error wraps [ErrUnprovisioned]; fewer replicas than
// wanted are then only logged, because the bus works without. Other errors wrap
// [ErrIncompatible] or [ErrUnreachable], or have the answer of the bus.
func Provision(ctx context.Context, c *Session, layout Layout, log *slog.Logger) error {
	changes, err := Plan(ctx, c, layout)
	if err != nil {
		return err
	}
	for _, change := range changes {
		if err := change.apply(ctx, c, log); !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			if err != nil {
				return err
			}
			continue
		}
		// Another process was faster, and may know lower limits.
		change, err := plan(ctx, c, change.wanted, layout.Partitions)
		if err == nil && change.Description != "" {
			err = change.apply(ctx, c, log)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Change is what [Provision] would do to one stream.
type Change struct {
	// Stream is its name; those of buckets begin with KV_ and OBJ_.
	Stream string
	// Description is the change in words.
	Description string

	// wanted is the table's config, next the one that the stream gets.
	wanted, next jetstream.StreamConfig
	// create means that the stream is missing, optional that the bus works without the change.
	create, optional bool
}

// Missing reports whether the stream does not exist.
func (ch Change) Missing() bool { return ch.create }

// Plan returns what [Provision] would do, and changes nothing. The errors are those of
// Provision.
func Plan(ctx context.Context, c *Session, layout Layout) ([]Change, error) {
	if err := layout.Validate(); err != nil {
		return nil, err
	}
	if err := c.checkUsable(); err != nil {
		return nil, err
	}
	var changes []Change
	for _, want := range layout.streams(layout.replicasOn(c)) {
		change, err := plan(ctx, c, want, layout.Partitions)
		if err != nil {
			return nil, err
		}
		if change.Description != "" {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

// plan returns the change of one stream. Its Description is empty where there is none.
func plan(ctx context.Context, c *Session, want jetstream.StreamConfig, partitions int) (Change, error) {
	change := Change{Stream: want.Name, wanted: want, next: want}
	var s jetstream.Stream
	err := c.failOnDenial(ctx, apiInfo+want.Name, func(ctx context.Context) (err error) {
		s, err = c.stream(ctx, want.Name)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		change.create, change.Description = true, fmt.Sprintf("create it with %s", plural(want.Replicas, "replica"))
		if n, _ := partitionsOf(want.SubjectTransform); n > 1 {
			change.Description += fmt.Sprintf(" and %d partitions", n)
		}
		return change, nil
	case err != nil:
		return change, wrapStream("check", want.Name, err)
	}
	info := s.CachedInfo()
	split, err := reconcileSplit(info.Config, want, info.State.Msgs, partitions)
	if err != nil {
		return change, err
	}
	next, what, err := reconcile(info.Config, want)
	if err != nil {
		return change, err
	}
	if split {
		next.SubjectTransform, what = want.SubjectTransform, join(what, fmt.Sprintf("split it into %d partitions", partitions))
	}
	if next.Replicas < want.Replicas {
		change.optional = what == ""
		what = join(what, fmt.Sprintf("%d replicas in place of %d", want.Replicas, max(next.Replicas, 1)))
		next.Replicas = want.Replicas
	}
	change.next, change.Description = next, what
	return change, nil
}

func (ch Change) apply(ctx context.Context, c *Session, log *slog.Logger) error {
	doing, api, do, level := "update", apiUpdate, c.JS.UpdateStream, slog.LevelInfo
	if ch.create {
		doing, api, do, level = "create", apiCreate, c.JS.CreateStream, slog.LevelDebug
	}
	err := c.failOnDenial(ctx, api+ch.Stream, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		_, err := do(ctx, ch.next)
		return err
	})
	switch {
	case err == nil:
		log.Log(ctx, level, "stream provisioned", "stream", ch.Stream, "change", ch.Description)
		return nil
	case errors.Is(err, ErrDenied) && ch.optional:
		log.Warn("a stream has fewer replicas than wanted, and this role may not add any: run tocsin provision", "stream", ch.Stream, "change", ch.Description)
		return nil
	case errors.Is(err, ErrDenied):
		return fmt.Errorf("%w: stream %s: %s: %w", ErrUnprovisioned, ch.Stream, ch.Description, err)
	case isNoPeers(err):
		return fmt.Errorf("%s stream %s with %s: %w: start more servers with JetStream, or ask for fewer replicas with TOCSIN_REPLICAS",
			doing, ch.Stream, plural(ch.next.Replicas, "replica"), err)
	}
	return wrapStream(doing, ch.Stream, err)
}

// isNoPeers reports whether the bus has too few servers for a change.
func isNoPeers(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return slices.Contains([]jetstream.ErrorCode{codeNoPeers, codeInsufficientResource, codeReplicasNotSupported}, api.ErrorCode)
}

func wrapStream(doing, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s stream %s: %w", doing, name, err)
	}
	return nil
}

// reconcileSplit reports whether to split an existing stream into partitions. A stream
// with messages can't be: readers of partitions would not see them.
//
// Between the check and the change a message may still arrive unsplit. It is read with the
// first partition, see [TelemetryOf].
func reconcileSplit(have, want jetstream.StreamConfig, msgs uint64, partitions int) (bool, error) {
	if want.Name != StreamTelemetry {
		return false, nil
	}
	present, err := partitionsOf(have.SubjectTransform)
	switch {
	case err != nil:
		return false, err
	case partitions == 0 || partitions == present:
		return false, nil
	case present > 1:
		return false, fmt.Errorf("%w: %s has %d partitions, %d are wanted: set TOCSIN_PARTITIONS to %d, or, once the detectors have read everything, delete the stream and run tocsin provision again",
			ErrIncompatible, want.Name, present, partitions, present)
	case msgs > 0:
		return false, fmt.Errorf("%w: %s holds %s not split into %d partitions: leave TOCSIN_PARTITIONS at 1, or stop the ingest services, wait until the detectors have read everything, delete the stream and run tocsin provision again",
			ErrIncompatible, want.Name, plural(int(msgs), "message"), partitions)
	}
	return true, nil
}

// reconcile returns the config that an existing stream must get, and the difference in
// words, which is empty for none. Replicas stay.
func reconcile(have, want jetstream.StreamConfig) (next jetstream.StreamConfig, what string, err error) {
	if have.Storage != want.Storage || have.Retention != want.Retention || have.Discard != want.Discard {
		return have, "", fmt.Errorf("%w: %s has other storage, retention or discard rules: move it away or use another NATS account", ErrIncompatible, want.Name)
	}
	next = have
	for _, subject := range want.Subjects {
		if !slices.Contains(next.Subjects, subject) {
			next.Subjects = append(slices.Clone(next.Subjects), subject)
			what = join(what, "accept "+subject)
		}
	}
	if slices.Contains([]bool{
		widen(&next.MaxAge, want.MaxAge), widen(&next.MaxBytes, want.MaxBytes),
		widen(&next.MaxMsgs, want.MaxMsgs), widen(&next.MaxMsgsPerSubject, want.MaxMsgsPerSubject),
	}, true) {
		what = join(what, "raise its limits")
	}
	if next.Duplicates < want.Duplicates {
		next.Duplicates, what = want.Duplicates, join(what, fmt.Sprintf("remember ids for %s", want.Duplicates))
	}
	if !next.AllowDirect {
		next.AllowDirect, what = true, join(what, "allow direct reads")
	}
	if want.AllowRollup && !next.AllowRollup {
		next.AllowRollup, what = true, join(what, "allow roll-ups")
	}
	if want.RePublish != nil && (next.RePublish == nil || *next.RePublish != *want.RePublish) {
		next.RePublish, what = want.RePublish, join(what, "republish to "+want.RePublish.Destination)
	}
	return next, what, nil
}

func join(what, more string) string {
	if what == "" {
		return more
	}
	return what + ", " + more
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// widen raises a limit to the wanted one, and returns whether it did. Zero and below mean no
// limit.
func widen[T ~int64](have *T, want T) bool {
	if *have <= 0 || want > 0 && *have >= want {
		return false
	}
	*have = max(want, 0)
	return true
}
