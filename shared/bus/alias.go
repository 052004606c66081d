package bus

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Former names, for callers that have not moved yet.
type (
	// Conn is Session.
	Conn = Session
	// ConnConfig is Config.
	ConnConfig = Config
)

var (
	// ErrAway is ErrUnreachable.
	ErrAway = ErrUnreachable
	// ErrNoEnd is ErrIncomplete.
	ErrNoEnd = ErrIncomplete
)

// Last is Newest.
func (s *Session) Last(ctx context.Context, stream, subject string) (m Message, found bool, err error) {
	return s.Newest(ctx, stream, subject)
}

// Has is Contains.
func (s *Session) Has(ctx context.Context, stream, subject string) (bool, error) {
	return s.Contains(ctx, stream, subject)
}

// Stored is Read from the first message on.
func (s *Session) Stored(ctx context.Context, stream string, limit int) ([]Message, error) {
	return s.Read(ctx, stream, 1, limit)
}

// StoredFrom is Read.
func (s *Session) StoredFrom(ctx context.Context, stream string, seq uint64, limit int) ([]Message, error) {
	return s.Read(ctx, stream, seq, limit)
}

// Follow is Session.Follow that returns nil when ctx ends, and waits for that where the
// session is closed.
func Follow(ctx context.Context, s *Session, cfg FollowConfig, handle func(Message) error) error {
	err := s.Follow(ctx, cfg.moved(), handle)
	if errors.Is(err, ErrClosed) {
		<-ctx.Done()
	}
	if ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ErrClosed)) {
		return nil
	}
	return err
}

// moved returns the config with the present names of its fields.
func (cfg FollowConfig) moved() FollowConfig {
	if cfg.Start > 0 {
		cfg.After.Seq = cfg.Start - 1
	}
	if !cfg.Created.IsZero() {
		cfg.After.Created = cfg.Created
	}
	if renewed := cfg.Renewed; renewed != nil {
		cfg.Recreated = func(p Position) { renewed(p.Created) }
	}
	if cfg.Began != nil {
		cfg.Started = cfg.Began
	}
	return cfg
}

func each(handle func(Message)) func(Message) error {
	return func(m Message) error { handle(m); return nil }
}

// ReadSince is ReadToEnd.
func ReadSince(ctx context.Context, s *Session, stream string, since time.Time, log *slog.Logger, handle func(Message)) error {
	return s.ReadToEnd(ctx, FollowConfig{Stream: stream, Since: since, Logger: log}, each(handle))
}

// ReadNewest is ReadToEnd.
func ReadNewest(ctx context.Context, s *Session, stream string, limit int, log *slog.Logger, handle func(Message)) error {
	return s.ReadToEnd(ctx, FollowConfig{Stream: stream, Newest: limit, Logger: log}, each(handle))
}

// ReadStored is ReadToEnd.
func ReadStored(ctx context.Context, s *Session, cfg FollowConfig, handle func(Message)) error {
	return s.ReadToEnd(ctx, cfg.moved(), each(handle))
}
