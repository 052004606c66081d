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

// ErrDenied is returned when the session's role may not do something on this bus, or its
// credentials are those of another role.
var ErrDenied = errors.New("the bus does not let this role do that")

// denials ends requests that the server denied. The server reports a denial on the
// connection and does not answer the request, which would wait until its timeout. It is
// safe for concurrent use.
type denials struct {
	// inbox is the prefix of reply inboxes.
	inbox string

	mu sync.Mutex
	// waiting has the cancel functions of pending requests, by subject.
	waiting map[string]map[*context.CancelCauseFunc]struct{}
	// inboxDenied is why no answer can arrive at all, or nil.
	inboxDenied error
}

// watch returns a context that ends when a publish to subject is denied.
func (d *denials) watch(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inboxDenied != nil {
		cancel(d.inboxDenied)
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

// violation matches the error with which the server reports a denial.
var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// report ends the requests that an error of the server denies, and returns whether there
// were any.
func (d *denials) report(err error) bool {
	m := violation.FindStringSubmatch(err.Error())
	if !errors.Is(err, nats.ErrPermissionViolation) || m == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.EqualFold(m[1], "subscription") {
		if strings.HasPrefix(m[2], d.inbox+".") {
			d.inboxDenied = fmt.Errorf("%w: its credentials are those of another role: check TOCSIN_NATS_CREDS: subscribe to %s", ErrDenied, m[2])
			for _, requests := range d.waiting {
				cancelAll(requests, d.inboxDenied)
			}
		}
		return false
	}
	cancelAll(d.waiting[m[2]], fmt.Errorf("%w: publish to %s", ErrDenied, m[2]))
	return len(d.waiting[m[2]]) > 0
}

func cancelAll(requests map[*context.CancelCauseFunc]struct{}, why error) {
	for cancel := range requests {
		(*cancel)(why)
	}
}

// forget is called for a new connection, for which the server checks all subscriptions
// again.
func (d *denials) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inboxDenied = nil
}

// err returns why no request can be answered, or nil.
func (d *denials) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inboxDenied
}

// failOnDenial runs a request that is published to subject. Where the role may not do that, the
// error wraps [ErrDenied], at once.
func (s *Session) failOnDenial(ctx context.Context, subject string, do func(context.Context) error) error {
	ctx, done := s.denials.watch(ctx, subject)
	defer done()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrDenied) {
		return cause
	}
	return err
}
