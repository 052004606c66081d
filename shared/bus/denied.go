package bus

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/nats-io/nats.go"
)

// ErrDenied says that the connection's role may not do something on this bus.
var ErrDenied = errors.New("the bus does not let this role do that")

// denials ends what waits for the answer to a request that the server did not let
// through. It says so beside the request, on the connection, and the request alone
// would wait until its time is up. The client's callbacks and any number of
// requests use it.
type denials struct {
	mu      sync.Mutex
	waiting map[string]map[*context.CancelCauseFunc]struct{} // by subject
}

// watch ends the context when a publish to subject is denied.
func (d *denials) watch(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
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

var deniedSubject = regexp.MustCompile(`(?i)permissions violation for publish to "([^"]+)"`)

// tell says whether somebody waited for what err denies, and has been told.
func (d *denials) tell(err error) bool {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	m := deniedSubject.FindStringSubmatch(err.Error())
	if m == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for cancel := range d.waiting[m[1]] {
		(*cancel)(fmt.Errorf("%w: publish to %s", ErrDenied, m[1]))
	}
	return len(d.waiting[m[1]]) > 0
}

// allowed runs a request that is published to subject. Its error wraps ErrDenied,
// at once, where the role may not do that.
func (c *Conn) allowed(ctx context.Context, subject string, do func(context.Context) error) error {
	ctx, done := c.denials.watch(ctx, subject)
	defer done()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrDenied) {
		return cause
	}
	return err
}
