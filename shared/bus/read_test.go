package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// store publishes numbered alerts.
func store(t *testing.T, s *bus.Session, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if _, err := s.JS.Publish(t.Context(), fmt.Sprintf("alerts.app%d.ci.info", i%2), []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRange(t *testing.T) {
	b := bustest.Start(t)
	detector, admin := b.Connect(bus.RoleDetector), b.Connect(bus.RoleProvisioner)
	s := b.Connect(bus.RoleGateway)
	read := func(r bus.Range, limit int) (got []uint64) {
		t.Helper()
		r.Stream = bus.StreamAlerts
		err := s.Range(t.Context(), r, func(m bus.Message) error {
			if got = append(got, m.Seq); len(got) == limit {
				return bus.ErrStop
			}
			return nil
		})
		if err != nil {
			t.Fatalf("Range(%+v): %v", r, err)
		}
		return got
	}
	if got := read(bus.Range{}, 0); got != nil {
		t.Errorf("Range of an empty stream = %v, want none", got)
	}
	store(t, detector, 1, 6)
	stream, err := admin.JS.Stream(t.Context(), bus.StreamAlerts)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 4} { // a stream may begin later, and have gaps
		if err := stream.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	middle := time.Now()
	for time.Now().Equal(middle) { // the clock is coarse on some systems
	}
	store(t, detector, 7, 9)
	for _, tt := range []struct {
		r     bus.Range
		limit int
		want  []uint64
	}{
		{bus.Range{}, 0, []uint64{2, 3, 5, 6, 7, 8, 9}},
		{bus.Range{Batch: 2}, 0, []uint64{2, 3, 5, 6, 7, 8, 9}},
		{bus.Range{Backwards: true}, 0, []uint64{9, 8, 7, 6, 5, 3, 2}},
		{bus.Range{Backwards: true, Batch: 2}, 0, []uint64{9, 8, 7, 6, 5, 3, 2}},
		{bus.Range{Backwards: true, Batch: 1}, 3, []uint64{9, 8, 7}},
		{bus.Range{First: 3, Last: 5}, 0, []uint64{3, 5}},
		{bus.Range{First: 3, Last: 5, Backwards: true, Batch: 1}, 0, []uint64{5, 3}},
		{bus.Range{First: 8, Last: 100}, 0, []uint64{8, 9}},
		{bus.Range{First: 4, Last: 4}, 0, nil},
		{bus.Range{First: 5, Last: 3}, 0, nil},
		{bus.Range{First: 5, Last: 3, Backwards: true}, 0, nil},
		{bus.Range{}, 2, []uint64{2, 3}},
		{bus.Range{Since: middle}, 0, []uint64{7, 8, 9}},
		{bus.Range{Since: middle, Backwards: true, Batch: 2}, 0, []uint64{9, 8, 7}},
	} {
		if diff := cmp.Diff(tt.want, read(tt.r, tt.limit)); diff != "" {
			t.Errorf("Range(%+v), limit %d (-want +got):\n%s", tt.r, tt.limit, diff)
		}
	}

	state, err := s.State(t.Context(), bus.StreamAlerts)
	if err != nil || state.First != 2 || state.Last != 9 || state.Messages != 7 || state.Created.IsZero() || state.End() != (bus.Position{Seq: 9, Created: state.Created}) {
		t.Errorf("State = %+v, %v, want sequences 2 to 9 with 7 messages", state, err)
	}
	errHandle := errors.New("enough")
	if err := s.Range(t.Context(), bus.Range{Stream: bus.StreamAlerts}, func(bus.Message) error { return errHandle }); !errors.Is(err, errHandle) {
		t.Errorf("Range = %v, want the handler's error", err)
	}
	if err := s.Range(t.Context(), bus.Range{Stream: "TELEMETRY", Last: 1}, nil); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("Range of a stream that the role may not read = %v, want ErrDenied", err)
	}
	b.Stop()
	bustest.Eventually(t, "loss of the bus", func() bool { return !s.Connected() })
	if err := s.Range(t.Context(), bus.Range{Stream: bus.StreamAlerts}, nil); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("Range without the bus = %v, want ErrUnreachable", err)
	}
}

func TestReadToEnd(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	detector, s := b.Connect(bus.RoleDetector), b.Connect(bus.RoleGateway)
	read := func(cfg bus.FollowConfig) (got []string) {
		t.Helper()
		cfg.Stream, cfg.Logger = bus.StreamAlerts, bustest.Quiet()
		if err := s.ReadToEnd(t.Context(), cfg, func(m bus.Message) error { got = append(got, string(m.Data)); return nil }); err != nil {
			t.Fatalf("ReadToEnd(%+v): %v", cfg, err)
		}
		return got
	}
	if got := read(bus.FollowConfig{}); got != nil {
		t.Errorf("ReadToEnd of an empty stream = %v, want none", got)
	}
	store(t, detector, 1, 5)
	for name, tt := range map[string]struct {
		cfg  bus.FollowConfig
		want []string
	}{
		"all":             {bus.FollowConfig{}, []string{"1", "2", "3", "4", "5"}},
		"after":           {bus.FollowConfig{After: bus.Position{Seq: 3}}, []string{"4", "5"}},
		"after the end":   {bus.FollowConfig{After: bus.Position{Seq: 5}}, nil},
		"beyond the end":  {bus.FollowConfig{After: bus.Position{Seq: 50}}, nil},
		"newest":          {bus.FollowConfig{Newest: 2}, []string{"4", "5"}},
		"newest of fewer": {bus.FollowConfig{Newest: 20}, []string{"1", "2", "3", "4", "5"}},
		"subject":         {bus.FollowConfig{Subjects: []string{"alerts.app0.>"}}, []string{"2", "4"}},
		"no such subject": {bus.FollowConfig{Subjects: []string{"alerts.app7.>"}}, nil},
		"since":           {bus.FollowConfig{Since: time.Now().Add(time.Hour)}, nil},
		"headers":         {bus.FollowConfig{After: bus.Position{Seq: 4}, HeadersOnly: true}, []string{""}},
		"another stream":  {bus.FollowConfig{After: bus.Position{Seq: 3, Created: time.Unix(1, 0)}}, []string{"1", "2", "3", "4", "5"}},
	} {
		if diff := cmp.Diff(tt.want, read(tt.cfg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	stream, err := b.Connect(bus.RoleProvisioner).JS.Stream(t.Context(), bus.StreamAlerts)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 2} {
		if err := stream.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"3", "4", "5"}, read(bus.FollowConfig{After: bus.Position{Seq: 1}})); diff != "" {
		t.Errorf("after a message before the first (-want +got):\n%s", diff)
	}
	// The time of a slow reader ends in the middle of the stream. The messages that are under way
	// to it may still come, so there are many more.
	store(t, detector, 6, 300)
	ctx, cancel := context.WithCancelCause(t.Context())
	err = s.ReadToEnd(ctx, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: bustest.Quiet()}, func(bus.Message) error {
		cancel(context.DeadlineExceeded)
		return nil
	})
	if !errors.Is(err, bus.ErrIncomplete) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ReadToEnd with too little time = %v, want ErrIncomplete and the cause", err)
	}
	if err := s.ReadToEnd(t.Context(), bus.FollowConfig{Stream: "NOSUCH", Logger: bustest.Quiet()}, nil); err == nil {
		t.Error("ReadToEnd of a missing stream = nil, want an error")
	}
	errHandle := errors.New("enough")
	if err := s.ReadToEnd(t.Context(), bus.FollowConfig{Stream: bus.StreamAlerts, Logger: bustest.Quiet()}, func(bus.Message) error { return errHandle }); !errors.Is(err, errHandle) {
		t.Errorf("ReadToEnd = %v, want the handler's error", err)
	}
}

// TestFollowEnds checks that the error of Follow is the reason why it ended.
func TestFollowEnds(t *testing.T) {
	b := bustest.Start(t)
	store(t, b.Connect(bus.RoleDetector), 1, 3)
	s := b.Connect(bus.RoleGateway)
	cfg := bus.FollowConfig{Stream: bus.StreamAlerts, Logger: bustest.Quiet()}
	var last bus.Message
	if err := s.Follow(t.Context(), cfg, func(m bus.Message) error { last = m; return bus.ErrStop }); err != nil {
		t.Errorf("Follow with ErrStop = %v, want nil", err)
	}
	state, err := s.State(t.Context(), bus.StreamAlerts)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := last.Position(), (bus.Position{Seq: 1, Created: state.Created}); got != want {
		t.Errorf("Position = %+v, want %+v", got, want)
	}
	errCause := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = s.Follow(ctx, cfg, func(m bus.Message) error {
		if m.Seq == 3 {
			cancel(errCause)
		}
		return nil
	})
	if !errors.Is(err, errCause) {
		t.Errorf("Follow in a context that ended = %v, want its cause", err)
	}
	err = s.Follow(t.Context(), cfg, func(m bus.Message) error {
		if m.Seq == 3 {
			s.Close()
		}
		return nil
	})
	if !errors.Is(err, bus.ErrClosed) {
		t.Errorf("Follow on a closed session = %v, want ErrClosed", err)
	}
	<-s.Closed()
	if err := s.Err(); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("Err = %v, want ErrClosed", err)
	}
}

// TestStateOfANewStream checks the state of a stream that has held nothing yet, and of one
// that does not exist.
func TestStateOfANewStream(t *testing.T) {
	s := bustest.Start(t).Connect(bus.RoleGateway)
	state, err := s.State(t.Context(), bus.StreamAlerts)
	if err != nil || state.First != 1 || state.Last != 0 || state.Messages != 0 {
		t.Errorf("State = %+v, %v, want sequences 1 to 0", state, err)
	}
	if _, err := s.State(t.Context(), "NONE"); !errors.Is(err, jetstream.ErrStreamNotFound) || !strings.Contains(err.Error(), "start tocsin up once") {
		t.Errorf("State of an unknown stream = %v, want ErrStreamNotFound and what to do", err)
	}
}
