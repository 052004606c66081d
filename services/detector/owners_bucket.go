package detector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// The keys of the bucket of owners: a heartbeat for each member, a record for each
// partition.
const (
	ownersStream    = "KV_" + bus.BucketOwners
	ownersSubject   = "$KV." + bus.BucketOwners + "."
	memberKey       = "member."
	partitionKey    = "partition."
	ownersReadBatch = 256 // entries read in one round trip
)

// ownersBucket is the bucket in which detectors agree on the owner of each partition.
type ownersBucket struct {
	session *bus.Session
	id      string
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

// view reads the whole bucket.
func (o ownersBucket) view(ctx context.Context) (ownership.View, error) {
	v := ownership.View{Members: map[string]ownership.Member{}, Records: map[int]ownership.Record{}}
	for seq := uint64(1); ; {
		msgs, err := o.session.Read(ctx, ownersStream, seq, ownersReadBatch)
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
	if m.Deleted() { // by hand
		return nil
	}
	key := m.Key(bus.BucketOwners)
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

// writeHeartbeat writes this member's heartbeat, without a compare-and-set, and returns its
// revision.
func (o ownersBucket) writeHeartbeat(ctx context.Context, leaving bool) (uint64, error) {
	if !o.session.Connected() {
		return 0, bus.ErrUnreachable
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	key := memberKey + o.id
	data, err := json.Marshal(heartbeat{Host: host, PID: os.Getpid(), Leaving: leaving})
	if err != nil {
		return 0, fmt.Errorf("encode %s of bucket %s: %w", key, bus.BucketOwners, err)
	}
	ack, err := o.session.JS.Publish(ctx, ownersSubject+key, data)
	if err != nil {
		return 0, fmt.Errorf("write %s of bucket %s: %w", key, bus.BucketOwners, err)
	}
	return ack.Sequence, nil
}

// setOwner writes the owner of a partition, empty to release it, if the record is still
// at a revision. It returns the new revision, or an error that wraps bus.ErrConflict.
func (o ownersBucket) setOwner(ctx context.Context, partition int, owner string, revision uint64) (uint64, error) {
	data, err := json.Marshal(ownerRecord{owner})
	if err != nil {
		return 0, fmt.Errorf("encode the owner of partition %d: %w", partition, err)
	}
	return o.session.Document(bus.BucketOwners, partitionKey+strconv.Itoa(partition)).Write(ctx, data, revision)
}

// remove deletes one entry for good.
func (o ownersBucket) remove(ctx context.Context, revision uint64) error {
	return o.session.Delete(ctx, ownersStream, revision)
}
