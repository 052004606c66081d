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

// The keys of the bucket of owners: a beat of each member, and a record of each
// partition.
const (
	ownersStream   = "KV_" + bus.BucketOwners
	ownersPrefix   = "$KV." + bus.BucketOwners + "."
	memberKey      = "member."
	partitionKey   = "partition."
	ownersTogether = 256 // records read in one round trip
)

// owners is the bucket in which detectors agree on who owns which partition.
type owners struct {
	c  *bus.Conn
	id string
}

// beat is what a member writes of itself. Host and PID are for people.
type beat struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Leaving bool   `json:"leaving,omitempty"`
}

type ownerRecord struct {
	Owner string `json:"owner"`
}

// errTaken says that a record is no longer what it was.
var errTaken = errors.New("the record has changed")

// view reads the whole bucket.
func (o owners) view(ctx context.Context) (ownership.View, error) {
	v := ownership.View{Members: map[string]ownership.Member{}, Records: map[int]ownership.Record{}}
	for seq := uint64(1); ; {
		msgs, err := o.c.StoredFrom(ctx, ownersStream, seq, ownersTogether)
		if err != nil {
			return v, err
		}
		for i := range msgs {
			if err := noteOwner(&v, &msgs[i]); err != nil {
				return v, err
			}
		}
		if len(msgs) == 0 || msgs[len(msgs)-1].Pending == 0 {
			return v, nil
		}
		seq = msgs[len(msgs)-1].Seq + 1
	}
}

// noteOwner takes in one record. Of two for one key, which there are where it was
// written during the reading, the later one counts.
func noteOwner(v *ownership.View, m *bus.Message) error {
	key := strings.TrimPrefix(m.Subject, ownersPrefix)
	if m.Header.Get("KV-Operation") != "" {
		return nil // somebody deleted it by hand
	}
	if id, ok := strings.CutPrefix(key, memberKey); ok {
		var b beat
		if err := json.Unmarshal(m.Data, &b); err != nil {
			return fmt.Errorf("decode %s of bucket %s: %w", key, bus.BucketOwners, err)
		}
		v.Members[id] = ownership.Member{Revision: m.Seq, Leaving: b.Leaving}
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

// beat writes that we are alive, and returns the revision of it.
func (o owners) beat(ctx context.Context, leaving bool) (uint64, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return o.write(ctx, memberKey+o.id, beat{Host: host, PID: os.Getpid(), Leaving: leaving})
}

// claim writes the owner of a partition, who is nobody for the empty id, if its
// record is still at a revision. It returns the new one, or errTaken.
func (o owners) claim(ctx context.Context, partition int, owner string, revision uint64) (uint64, error) {
	return o.write(ctx, partitionKey+strconv.Itoa(partition), ownerRecord{owner}, jetstream.WithExpectLastSequencePerSubject(revision))
}

func (o owners) write(ctx context.Context, key string, value any, opts ...jetstream.PublishOpt) (uint64, error) {
	if !o.c.Connected() {
		return 0, bus.ErrAway
	}
	data, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("encode %s of bucket %s: %w", key, bus.BucketOwners, err)
	}
	ack, err := o.c.JS.PublishMsg(ctx, &nats.Msg{Subject: ownersPrefix + key, Data: data}, opts...)
	if bus.Conflict(err) {
		return 0, errTaken
	}
	if err != nil {
		return 0, fmt.Errorf("write %s of bucket %s: %w", key, bus.BucketOwners, err)
	}
	return ack.Sequence, nil
}

// forget removes one record for good.
func (o owners) forget(ctx context.Context, revision uint64) error {
	return o.c.Delete(ctx, ownersStream, revision)
}
