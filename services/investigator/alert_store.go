package investigator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// maxRevise is the number of tries of one revision while other alerts of its subject are
	// stored meanwhile. After that it is published without this check: it may then have an older
	// count than the alert.
	maxRevise = 5
	// reviseWindow is how many revisions may be unacknowledged at once.
	reviseWindow = 64
	// maxBehind is the number of times that a replica may lack the newest alerts before it is
	// believed, and behindPause the first pause before the next one is asked; it doubles.
	maxBehind   = 6
	behindPause = 2 * time.Millisecond
)

// alertStore reads alerts of the stream ALERTS, and publishes revisions of them. It is safe for
// concurrent use.
type alertStore struct {
	session   *bus.Session
	publisher *bus.Publisher
}

func newAlertStore(s *bus.Session) (*alertStore, error) {
	p, err := bus.NewPublisher(s, reviseWindow)
	if err != nil {
		return nil, fmt.Errorf("publish revisions of alerts: %w", err)
	}
	return &alertStore{session: s, publisher: p}, nil
}

// Find returns the alert with an id, which may be that of a revision: as it was stored last, under
// its first id. It reports whether the alert is still stored.
func (s *alertStore) Find(ctx context.Context, id string) (alert.Alert, bool, error) {
	h, err := s.history(ctx, id, "")
	return h.newest, h.found, err
}

// alertHistory is what ALERTS has of one alert.
type alertHistory struct {
	// newest is the newest publication, under the first id, with the newest investigation.
	newest alert.Alert
	found  bool
	// has reports whether the wanted publication is stored.
	has bool
	// end is the sequence up to which the stream was read.
	end uint64
}

// history reads what the stream has of an alert, the newest first, back to its first publication.
// wanted is the id of a revision to look for, or empty.
func (s *alertStore) history(ctx context.Context, id, wanted string) (alertHistory, error) {
	first, h, err := s.readHistory(ctx, id, wanted)
	if err == nil && first != id { // newer revisions of it name the first id
		_, h, err = s.readHistory(ctx, first, wanted)
	}
	if err != nil {
		return h, fmt.Errorf("read alert %s: %w", id, err)
	}
	return h, nil
}

func (s *alertStore) readHistory(ctx context.Context, id, wanted string) (first string, h alertHistory, err error) {
	first = id
	state, err := s.session.State(ctx, bus.StreamAlerts)
	if err != nil {
		return first, h, err
	}
	h.end = state.Last
	all := bus.Range{Stream: bus.StreamAlerts, First: state.First, Last: state.Last, Backwards: true}
	read := func(handle func(bus.Message) error) error { return s.session.Range(ctx, all, handle) }
	newest := state.Last
	if state.Messages == 0 {
		newest = 0
	}
	err = fromNewest(ctx, newest, read, func(m bus.Message) error {
		var a alert.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil || a.ID != id && a.Revises != id {
			return nil //nolint:nilerr // a message that is no alert is not this one
		}
		h.has = h.has || a.ID == wanted
		if a.ID == id && a.Revises != "" {
			first = a.Revises
		}
		if !h.found {
			h.newest, h.found = a.AsOriginal(), true
		} else {
			h.newest = h.newest.KeepInvestigation(a.Investigation)
		}
		if a.ID == id { // its first publication
			return bus.ErrStop
		}
		return nil
	})
	return first, h, err
}

// errBehind ends reading from a replica that lacks the newest messages.
var errBehind = errors.New("the replica lacks the newest messages")

// fromNewest reads messages backwards from the one at newest: in a cluster each reading is answered by
// any replica, and one that lacks newest is given time. That message may also be deleted. newest is 0
// where there are none.
func fromNewest(ctx context.Context, newest uint64, read func(func(bus.Message) error) error, handle func(bus.Message) error) error {
	wait := behindPause
	for try := 1; ; try++ {
		first := true
		err := read(func(m bus.Message) error {
			if first && m.Seq < newest && try < maxBehind {
				return errBehind
			}
			first = false
			return handle(m)
		})
		if first && err == nil && newest > 0 && try < maxBehind { // it has nothing yet
			err = errBehind
		}
		if !errors.Is(err, errBehind) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}

// Revise publishes the revision that brings an investigation to an alert: to the alert as it was
// stored last, or to the given one where it is no longer stored. A revision that is stored already
// is not published again.
func (s *alertStore) Revise(ctx context.Context, a alert.Alert, inv alert.Investigation) error {
	return s.revise(ctx, a, inv, nil)
}

// ReviseWhile implements [reviser]. The revision is never published after one that was stored since
// wanted was asked: then it is asked again, up to maxRevise times.
func (s *alertStore) ReviseWhile(ctx context.Context, a alert.Alert, inv alert.Investigation, wanted wanted) error {
	return s.revise(ctx, a, inv, wanted)
}

func (s *alertStore) revise(ctx context.Context, a alert.Alert, inv alert.Investigation, wanted wanted) error {
	id := a.AsOriginal().ID
	for try := 1; ; try++ {
		h, err := s.history(ctx, id, inv.RevisionID(id))
		if err != nil || h.has {
			return err
		}
		if wanted != nil { // asked after the history was read: what comes later is a conflict
			if publish, err := wanted(ctx); err != nil || !publish {
				return err
			}
		}
		base := a
		if h.found {
			base = h.newest
		}
		m, err := revisionMessage(alert.RevisionFor(base, inv))
		if err == nil {
			err = s.publish(ctx, m, bus.AlertSubjectOfAnySeverity(base), h.end, try < maxRevise || wanted != nil)
		}
		if err == nil {
			return nil
		}
		if !bus.Conflict(err) || ctx.Err() != nil || wanted != nil && try >= maxRevise {
			return fmt.Errorf("publish the investigation of alert %s: %w", id, err)
		}
	}
}

// revisionMessage returns the message that publishes a revision.
func revisionMessage(a alert.Alert) (*nats.Msg, error) {
	data, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode the alert: %w", err)
	}
	return &nats.Msg{Subject: bus.AlertSubject(a), Data: data, Header: nats.Header{nats.MsgIdHdr: {a.ID}}}, nil
}

// publish publishes a revision. With check it fails with a conflict where an alert that is newer than
// end is stored on one of the subjects: that may be a newer revision, of another severity too.
func (s *alertStore) publish(ctx context.Context, m *nats.Msg, subjects string, end uint64, check bool) error {
	if check {
		newest, _, err := s.session.NewestAtLeader(ctx, bus.StreamAlerts, subjects)
		if err != nil {
			return err
		}
		if newest.Seq > end {
			return bus.ErrConflict
		}
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(newest.Seq))
		m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, subjects)
	}
	_, err := s.publisher.Publish(ctx, m)
	return err
}
