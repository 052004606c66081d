package bus

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// ErrDenied says that the connection's role may not do something on this bus, or
// that its credentials are those of another role.
var ErrDenied = errors.New("the bus does not let this role do that")

// denials ends what waits for the answer to a request that the server did not let
// through. It says so beside the request, on the connection, and the request alone
// would wait until its time is up. The client's callbacks and any number of
// requests use it, so it has a lock.
type denials struct {
	// inbox is the prefix of where answers come in.
	inbox string

	mu sync.Mutex
	// waiting has what ends each request under way, by its subject.
	waiting map[string]map[*context.CancelCauseFunc]struct{}
	// deaf is why no answer can come at all, or nil.
	deaf error
}

// watch ends the context when a publish to subject is denied.
func (d *denials) watch(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deaf != nil {
		cancel(d.deaf)
	}
	if d.waiting == nil {
		d.waiting = map[string]map[*context.CancelCauseFunc]struct{}{}
	}
	if d.waiting[subject] == nil {
		d.waiting[subject] = map[*context.CancelCauseFunc]struct{}{}
	}
	d.waiting[subject][&cancel] = struct{}{}
	return ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting[subject], &cancel)
		if len(d.waiting[subject]) == 0 {
			delete(d.waiting, subject)
		}
		cancel(nil)
	}
}

// violation is how the server says what it did not let through.
var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// tell says whether somebody waited for what err denies, and has been told.
func (d *denials) tell(err error) bool {
	m := violation.FindStringSubmatch(err.Error())
	if !errors.Is(err, nats.ErrPermissionViolation) || m == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.EqualFold(m[1], "subscription") {
		if strings.HasPrefix(m[2], d.inbox+".") {
			d.deaf = fmt.Errorf("%w: its credentials are those of another: check TOCSIN_NATS_CREDS: subscribe to %s", ErrDenied, m[2])
			for _, requests := range d.waiting {
				end(requests, d.deaf)
			}
		}
		return false
	}
	end(d.waiting[m[2]], fmt.Errorf("%w: publish to %s", ErrDenied, m[2]))
	return len(d.waiting[m[2]]) > 0
}

func end(requests map[*context.CancelCauseFunc]struct{}, why error) {
	for cancel := range requests {
		(*cancel)(why)
	}
}

// forget is for a new connection, whose subscriptions the server looks at anew.
func (d *denials) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = nil
}

// why is nil, or why no request can be answered.
func (d *denials) why() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.deaf
}

// allowed runs a request that is published to subject. Its error wraps ErrDenied,
// at once, where the role may not do that.
func (s *Session) allowed(ctx context.Context, subject string, do func(context.Context) error) error {
	ctx, done := s.denials.watch(ctx, subject)
	defer done()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrDenied) {
		return cause
	}
	return err
}
