package detector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// The keys of the bucket of owners: a heartbeat for each member, a record for each
// partition.
const (
	ownersStream    = "KV_" + bus.BucketOwners
	ownersPrefix    = "$KV." + bus.BucketOwners + "."
	memberKey       = "member."
	partitionKey    = "partition."
	ownersReadBatch = 256 // entries read in one round trip
)

// ownersBucket is the bucket in which detectors agree on the owner of each partition.
type ownersBucket struct {
	c  *bus.Conn
	id string
}

// heartbeat is the value of a member's key. Host and PID are for people.
type heartbeat struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Leaving bool   `json:"leaving,omitempty"`
}

// ownerRecord is the value of a partition's key.
type ownerRecord struct {
	Owner string `json:"owner"`
}

// errChanged is returned by a compare-and-set on a record that has changed.
var errChanged = errors.New("the record has changed")

// view reads the whole bucket.
func (o ownersBucket) view(ctx context.Context) (ownership.View, error) {
	v := ownership.View{Members: map[string]ownership.Member{}, Records: map[int]ownership.Record{}}
	for seq := uint64(1); ; {
		msgs, err := o.c.StoredFrom(ctx, ownersStream, seq, ownersReadBatch)
		if err != nil {
			return v, err
		}
		for i := range msgs {
			if err := addOwnersEntry(&v, &msgs[i]); err != nil {
				return v, err
			}
		}
		if len(msgs) == 0 || msgs[len(msgs)-1].Pending == 0 {
			return v, nil
		}
		seq = msgs[len(msgs)-1].Seq + 1
	}
}

// addOwnersEntry adds one entry to a view. A key that was written during the read has
// two entries; the later one wins.
func addOwnersEntry(v *ownership.View, m *bus.Message) error {
	key := strings.TrimPrefix(m.Subject, ownersPrefix)
	if m.Header.Get("KV-Operation") != "" {
		return nil // deleted by hand
	}
	if id, ok := strings.CutPrefix(key, memberKey); ok {
		var h heartbeat
		if err := json.Unmarshal(m.Data, &h); err != nil {
			return fmt.Errorf("decode %s of bucket %s: %w", key, bus.BucketOwners, err)
		}
		v.Members[id] = ownership.Member{Revision: m.Seq, Leaving: h.Leaving}
		return nil
	}
	if text, ok := strings.CutPrefix(key, partitionKey); ok {
		var r ownerRecord
		n, err := strconv.Atoi(text)
		if err = errors.Join(err, json.Unmarshal(m.Data, &r)); err != nil {
			return fmt.Errorf("decode %s of bucket %s: %w", key, bus.BucketOwners, err)
		}
		v.Records[n] = ownership.Record{Owner: r.Owner, Revision: m.Seq}
	}
	return nil
}

// writeHeartbeat writes this member's heartbeat and returns its revision.
func (o ownersBucket) writeHeartbeat(ctx context.Context, leaving bool) (uint64, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return o.write(ctx, memberKey+o.id, heartbeat{Host: host, PID: os.Getpid(), Leaving: leaving})
}

// setOwner writes the owner of a partition, empty to release it, if the record is still
// at a revision. It returns the new revision, or errChanged.
func (o ownersBucket) setOwner(ctx context.Context, partition int, owner string, revision uint64) (uint64, error) {
	return o.write(ctx, partitionKey+strconv.Itoa(partition), ownerRecord{owner}, jetstream.WithExpectLastSequencePerSubject(revision))
}

func (o ownersBucket) write(ctx context.Context, key string, value any, opts ...jetstream.PublishOpt) (uint64, error) {
	if !o.c.Connected() {
		return 0, bus.ErrAway
	}
	data, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("encode %s of bucket %s: %w", key, bus.BucketOwners, err)
	}
	ack, err := o.c.JS.PublishMsg(ctx, &nats.Msg{Subject: ownersPrefix + key, Data: data}, opts...)
	if bus.Conflict(err) {
		return 0, errChanged
	}
	if err != nil {
		return 0, fmt.Errorf("write %s of bucket %s: %w", key, bus.BucketOwners, err)
	}
	return ack.Sequence, nil
}

// remove deletes one entry for good.
func (o ownersBucket) remove(ctx context.Context, revision uint64) error {
	return o.c.Delete(ctx, ownersStream, revision)
}
