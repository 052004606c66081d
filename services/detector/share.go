package detector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
)

const (
	// ownersTimeout bounds one request to the bucket of owners. Two of them fit into
	// the time that a beat holds.
	ownersTimeout = 700 * time.Millisecond
	// beatRetry is the pause after a beat that was not stored.
	beatRetry = 100 * time.Millisecond
)

// sharing takes part in the work that several detectors share. Its loop owns the
// table of who owns what, and begins and ends partitions as that says.
type sharing struct {
	*process
	of     int
	owners owners
	term   *term
	table  *ownership.Table
	// running are the partitions that are not at their end.
	running map[int]*tenant
	ended   chan *tenant
	beats   chan acknowledged
	// progress says that a partition has caught up.
	progress chan struct{}
	// failed is the last thing that was wrong with looking, to say it once.
	failed string
	// ready says that the bucket was seen; caughtUp is called once all is well.
	ready    bool
	caughtUp func()
}

// acknowledged is a beat that was stored.
type acknowledged struct {
	revision uint64
	sent     time.Time
}

// tenant is a partition that runs here.
type tenant struct {
	partition *partition
	// stop ends it in order, abandon at once.
	stop, abandon context.CancelFunc
	// released says that its record is ours to clear.
	released bool
	err      error
}

// share works on what is ours until ctx ends, and then gives it away in order.
func (d *process) share(ctx context.Context, of int, caughtUp func()) error {
	s := &sharing{
		process: d, of: of, caughtUp: caughtUp, owners: owners{c: d.out, id: d.who.ID}, term: newTerm(), table: ownership.New(d.who.ID, of),
		running: map[int]*tenant{}, ended: make(chan *tenant), beats: make(chan acknowledged, 8), progress: make(chan struct{}, 1),
	}
	// The beats outlive ctx: what ends in order still has something to say.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var pulse sync.WaitGroup
	var last uint64
	leaving := make(chan struct{})
	pulse.Go(func() { last = s.pulse(life, leaving) })
	err := s.work(ctx, life)
	close(leaving)
	err = errors.Join(err, s.leave(life))
	end()
	pulse.Wait()
	if last > 0 && d.out.Connected() {
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownersTimeout)
		defer cancel()
		if err := s.owners.forget(writing, last); err != nil {
			s.log.Info("this detector's beat could not be removed; the others do that after a while", "error", err)
		}
	}
	return err
}

// pulse sends beats until ctx ends, and returns the revision of the last one. One
// that is not stored is sent again sooner.
func (s *sharing) pulse(ctx context.Context, leaving <-chan struct{}) (last uint64) {
	var failed string
	gone := false
	for {
		sent := time.Now()
		writing, cancel := context.WithTimeout(ctx, ownersTimeout)
		revision, err := s.owners.beat(writing, gone)
		cancel()
		next := ownership.BeatEvery - time.Since(sent)
		if err == nil {
			failed, last = "", revision
			s.term.renew(sent)
			select {
			case s.beats <- acknowledged{revision, sent}:
			default: // the loop is busy, and will know of the next
			}
		} else if next = beatRetry; ctx.Err() == nil {
			s.state.waits(err)
			if text := err.Error(); text != failed {
				failed = text
				s.log.Warn("this detector can't say that it is alive: another one takes over what it owns", "error", err)
			}
		}
		wait := time.NewTimer(max(next, 0))
		select {
		case <-ctx.Done():
			wait.Stop()
			return last
		case <-leaving:
			gone, leaving = true, nil // said at once
		case <-wait.C:
		}
		wait.Stop()
	}
}

// work looks and does what the table says, until ctx ends or a partition fails.
func (s *sharing) work(ctx, life context.Context) error {
	look := time.NewTicker(ownership.LookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case b := <-s.beats:
			s.table.Beat(b.revision, b.sent)
			if s.ready {
				continue
			}
			// The first is looked at once: so a start takes no longer than it must.
			s.look(ctx, life)
		case t := <-s.ended:
			if err := s.end(life, t); err != nil {
				return err
			}
		case <-s.progress:
		case <-look.C:
			s.look(ctx, life)
		}
		s.tell()
	}
}

// look reads the bucket and does what is to be done.
func (s *sharing) look(ctx, life context.Context) {
	reading, cancel := context.WithTimeout(ctx, ownersTimeout)
	defer cancel()
	asked := time.Now()
	view, err := s.owners.view(reading)
	answered := time.Now()
	if err != nil {
		if text := err.Error(); ctx.Err() == nil && text != s.failed {
			s.failed = text
			s.log.Warn("can't see who owns what", "error", err)
		}
		return
	}
	s.failed = ""
	epoch := s.term.epoch()
	plan := s.table.Look(view, asked, answered, epoch)
	for _, n := range plan.Drop {
		s.log.Warn("another detector has taken a partition over", "partition", n)
		s.running[n].abandon()
	}
	for _, n := range plan.Release {
		s.log.Info("giving a partition to another detector", "partition", n)
		s.running[n].released = true
		s.running[n].stop()
	}
	s.claim(ctx, life, plan.Claim, epoch)
	for _, revision := range plan.Forget {
		if err := s.owners.forget(reading, revision); err != nil && ctx.Err() == nil {
			s.log.Debug("a dead detector's beat could not be removed; whoever looks next tries again", "error", err)
		}
	}
	if epoch > 0 {
		s.ready = true
	}
}

// claim writes our name into records, all at once, and begins what is ours then.
func (s *sharing) claim(ctx, life context.Context, claims []ownership.Claim, epoch uint64) {
	writing, cancel := context.WithTimeout(ctx, ownersTimeout)
	defer cancel()
	revisions := make([]uint64, len(claims))
	var group errgroup.Group
	for i, c := range claims {
		group.Go(func() error {
			revision, err := s.owners.claim(writing, c.Partition, s.owners.id, c.Revision)
			if err != nil && !errors.Is(err, errTaken) && ctx.Err() == nil {
				s.log.Warn("a partition could not be claimed; the next look tries again", "partition", c.Partition, "error", err)
			}
			revisions[i] = revision
			return nil
		})
	}
	_ = group.Wait() // it has no errors
	for i, c := range claims {
		if revisions[i] == 0 {
			continue
		}
		s.table.Claimed(c.Partition, revisions[i], epoch)
		if c.Takeover {
			s.metrics.takeovers.Inc()
			s.log.Warn("taking over from a detector that died", "partition", c.Partition)
		}
		if t := s.running[c.Partition]; t != nil {
			t.partition.tenure.claimed(epoch)
			continue
		}
		s.begin(ctx, life, c.Partition, epoch)
	}
}

// begin runs a partition.
func (s *sharing) begin(ctx, life context.Context, number int, epoch uint64) {
	held := &tenure{term: s.term}
	held.claimed(epoch)
	p := newPartition(s.process, number, s.of, held)
	t := &tenant{partition: p}
	living, abandon := context.WithCancel(life)
	working, stop := context.WithCancel(ctx)
	t.stop, t.abandon = stop, abandon
	s.running[number] = t
	go func() {
		t.err = p.run(working, living, func() {
			select {
			case s.progress <- struct{}{}:
			default:
			}
		})
		stop()
		abandon()
		s.ended <- t // the loop, or leave, waits for it
	}()
}

// end notes that a partition has ended, and clears its record where that is ours
// to do.
func (s *sharing) end(ctx context.Context, t *tenant) error {
	number := t.partition.number
	if t.released {
		writing, cancel := context.WithTimeout(ctx, ownersTimeout)
		defer cancel()
		_, err := s.owners.claim(writing, number, "", s.table.Revision(number))
		if err != nil && !errors.Is(err, errTaken) {
			s.log.Warn("a partition could not be given away; it is taken over once this detector counts as dead", "partition", number, "error", err)
		}
	}
	delete(s.running, number)
	s.table.Ended(number)
	s.metrics.forget(number)
	return t.err
}

// leave ends all partitions in order, gives them away and takes our beat out.
func (s *sharing) leave(ctx context.Context) (err error) {
	s.state.takesPart(false, s.of)
	s.table.Leave()
	for _, number := range slices.Sorted(maps.Keys(s.running)) {
		t := s.running[number]
		t.released = true
		t.stop()
	}
	for len(s.running) > 0 {
		err = errors.Join(err, s.end(ctx, <-s.ended))
	}
	return err
}

// tell says how this detector is.
func (s *sharing) tell() {
	held, _ := s.term.holds(s.term.epoch())
	s.state.takesPart(s.ready && held, s.of)
	if s.state.Health().OK {
		s.caughtUp()
	}
}
