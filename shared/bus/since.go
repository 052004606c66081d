package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrNoEnd says that a stream was not read to its end in time.
var ErrNoEnd = errors.New("there is more than can be read in this time")

// ReadSince hands over what a stream holds now that arrived since a time, oldest
// first. It needs a role that may follow the stream. Where ctx ends before all is
// read, the error is ErrNoEnd; one of the bus wraps context.DeadlineExceeded where
// it does not answer.
func ReadSince(ctx context.Context, c *Conn, stream string, since time.Time, log *slog.Logger, handle func(Message)) error {
	s, err := c.JS.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", stream, err)
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 || state.LastTime.Before(since) {
		return nil
	}
	return readToEnd(ctx, c, FollowConfig{Stream: stream, Since: since, Logger: log}, handle)
}

// ReadNewest hands over the newest messages that a stream holds now, oldest first, at
// most limit of them. Role and errors are as those of ReadSince.
func ReadNewest(ctx context.Context, c *Conn, stream string, limit int, log *slog.Logger, handle func(Message)) error {
	s, err := c.JS.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", stream, err)
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	return readToEnd(ctx, c, FollowConfig{
		Stream: stream, Start: max(state.FirstSeq, state.LastSeq-min(state.LastSeq-1, uint64(limit)-1)), Logger: log,
	}, handle)
}

// ReadStored hands over what a stream holds now of what the config names, oldest first.
// Role and errors are as those of ReadSince.
func ReadStored(ctx context.Context, c *Conn, cfg FollowConfig, handle func(Message)) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	nothing := false
	began := cfg.Began
	cfg.Began = func(pending uint64) {
		if began != nil {
			began(pending)
		}
		if pending == 0 {
			nothing = true
			cancel()
		}
	}
	err := readToEnd(reading, c, cfg, handle)
	if nothing && errors.Is(err, ErrNoEnd) {
		return nil
	}
	return err
}

// readToEnd follows a stream that holds something there, until it holds no more.
func readToEnd(ctx context.Context, c *Conn, cfg FollowConfig, handle func(Message)) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	err := Follow(reading, c, cfg, func(m Message) error {
		handle(m)
		if m.Pending == 0 {
			cancel()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("read stream %s: %w", cfg.Stream, ErrNoEnd)
	}
	return nil
}
