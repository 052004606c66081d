// Package feed reads the events of one cluster, in order and each once, for as long as
// that takes: over closed watches, servers that are away and versions that the cluster
// has forgotten.
//
// It decides when to try again, and what of a new list was missed. What is done with an
// event it doesn't know, nor where it is kept how far anybody came.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/pager"
	toolswatch "k8s.io/client-go/tools/watch"
)

const (
	// page is how many events are asked for at once.
	page = 500
	// listTimeout bounds one question for a page.
	listTimeout = 30 * time.Second
	// settled is how long a watch has to last until it counts as one that works, where
	// nothing comes.
	settled = 2 * time.Second
)

// Step is one step of the feed: an event that was added or modified, or none, where the
// cluster only says how far it is.
type Step struct {
	Event *corev1.Event
	// Version is the resourceVersion that the feed has come to with it.
	Version string
}

// Sign is how asking the cluster goes.
type Sign struct {
	// Errors is how many came one after the other, 0 once it works.
	Errors int
	// Err is the newest of them.
	Err error
}

// Source is where events are: api.Resource.
type Source interface {
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Feed reads. It is for one goroutine.
type Feed struct {
	source Source
	signs  chan<- Sign
	steps  chan<- Step
	// Relisted is called for each list that was needed because the cluster had forgotten
	// how far we were. It may be nil.
	Relisted func()
	// Same asks, after errors, whether it is still the same cluster: one that is not is
	// another's, and an error that wraps ErrOther. It may be nil.
	Same func(ctx context.Context) error
	log  *slog.Logger
	// version is how far it came.
	version string
	errors  int
	// told says that the newest sign is that it works.
	told bool
	// wait is how long to wait before the next question.
	wait time.Duration
	// other wraps ErrOther, once it is another cluster.
	other error
}

// ErrOther says that another cluster answers than before.
var ErrOther = errors.New("another cluster answers at this address")

// New makes a feed, which says how it goes on signs and what comes on steps. Both are
// waited for.
func New(source Source, signs chan<- Sign, steps chan<- Step, log *slog.Logger) *Feed {
	return &Feed{source: source, signs: signs, steps: steps, log: log}
}

// Try asks the cluster something until it answers, with the pauses and signs of the
// feed. It returns what ended it where that is not an answer: ctx, or an error that
// final says is one.
func (f *Feed) Try(ctx context.Context, final func(error) bool, ask func(context.Context) error) error {
	for {
		if err := f.pause(ctx); err != nil {
			return err
		}
		err := ask(ctx)
		switch {
		case err == nil:
			f.wait = 0 // it answers: what is asked next need not wait, too
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case final != nil && final(err):
			return err
		}
		if err := f.failed(ctx, err); err != nil {
			return err
		}
	}
}

// Run reads from a version on until ctx ends, or another cluster answers, with ErrOther.
// Without a version it begins with what comes from now on: what is there already
// happened before anybody watched.
func (f *Feed) Run(ctx context.Context, version string) error {
	f.version = version
	if err := f.begin(ctx); err != nil {
		return err
	}
	for {
		err := f.watch(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrOther):
			return err
		case errors.Is(err, errExpired):
			f.log.Info("the cluster has forgotten how far its events were read: they are listed anew", "resourceVersion", f.version)
			if f.Relisted != nil {
				f.Relisted()
			}
			if err := f.relist(ctx); err != nil {
				return err
			}
		case err != nil:
			if err := f.failed(ctx, err); err != nil {
				return err
			}
			// It may be one that was put back to an older state, and knows no such version.
			if err := f.begin(ctx); err != nil {
				return err
			}
		}
	}
}

// begin asks where the cluster is. One that is behind us was put back to an older state:
// then nothing can be said of what came between.
func (f *Feed) begin(ctx context.Context) error {
	var now string
	err := f.Try(ctx, nil, func(ctx context.Context) (err error) {
		now, err = f.now(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if f.version != "" && newer(f.version, now) {
		f.log.Warn("the cluster is at an older state than when it was watched last: its events are watched from now on", "was", f.version, "is", now)
		f.version = ""
	}
	if f.version != "" {
		return nil
	}
	return f.step(ctx, Step{Version: now})
}

// now is the version that the cluster is at.
func (f *Feed) now(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := f.list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

// still says, after errors, whether the cluster is the one that it was, and not behind a
// version. Of events the API server keeps no cache: asked to watch them from a version
// that it has not come to, it says nothing until it has.
func (f *Feed) still(ctx context.Context, version string) error {
	if f.errors == 0 {
		return nil
	}
	if f.Same != nil {
		if err := f.Same(ctx); err != nil {
			return err
		}
	}
	now, err := f.now(ctx)
	if err == nil && newer(version, now) {
		err = fmt.Errorf("%w: it is at %s, and was watched up to %s", errBehind, now, version)
	}
	return err
}

// errBehind says that the cluster was put back to an older state.
var errBehind = errors.New("the cluster is at an older state than before")

// relist hands over what a new list has that is newer than what was read, oldest first,
// and goes on from that list.
func (f *Feed) relist(ctx context.Context) error {
	var list *corev1.EventList
	err := f.Try(ctx, nil, func(ctx context.Context) (err error) {
		list, err = f.list(ctx, metav1.ListOptions{Limit: page})
		return err
	})
	if err != nil {
		return err
	}
	missed := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return !newer(e.ResourceVersion, f.version) })
	slices.SortFunc(missed, func(a, b corev1.Event) int { return compare(a.ResourceVersion, b.ResourceVersion) })
	for i := range missed {
		if err := f.step(ctx, Step{Event: &missed[i], Version: missed[i].ResourceVersion}); err != nil {
			return err
		}
	}
	return f.step(ctx, Step{Version: list.ResourceVersion})
}

// list asks for events, for all of them where the options have a limit over 1.
func (f *Feed) list(ctx context.Context, opts metav1.ListOptions) (*corev1.EventList, error) {
	if opts.Limit == 1 {
		o, err := f.source.List(ctx, opts)
		return events(o, err)
	}
	var all corev1.EventList
	p := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		return f.source.List(ctx, opts)
	})
	p.PageSize = opts.Limit
	o, _, err := p.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if whole, is := o.(*corev1.EventList); is { // one page
		return whole, nil
	}
	paged, is := o.(*internalversion.List)
	if !is {
		return nil, fmt.Errorf("list events: the cluster answered with %T", o)
	}
	all.ResourceVersion = paged.ResourceVersion
	for _, item := range paged.Items {
		if e, is := item.(*corev1.Event); is {
			all.Items = append(all.Items, *e)
		}
	}
	return &all, nil
}

func events(o runtime.Object, err error) (*corev1.EventList, error) {
	if err != nil {
		return nil, err
	}
	list, is := o.(*corev1.EventList)
	if !is {
		return nil, fmt.Errorf("list events: the cluster answered with %T", o)
	}
	return list, nil
}

// errExpired says that the cluster no longer knows the version that we are at.
var errExpired = errors.New("the resourceVersion is too old")

// watch hands over what comes, until the version is forgotten or ctx ends. The watcher
// begins anew by itself; what it asks with, asker, waits, counts and tells.
func (f *Feed) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	w, err := toolswatch.NewRetryWatcherWithContext(ctx, f.version, asker{f})
	if err != nil {
		cancel()
		return fmt.Errorf("watch events: %w", err)
	}
	defer func() {
		cancel()
		for range w.ResultChan() { // until it has ended: it asks with what is ours
		}
		<-w.Done()
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, more := <-w.ResultChan():
			if !more {
				return errors.New("watch events: the watcher ended by itself")
			}
			switch o := e.Object.(type) {
			case *mark:
				err = f.step(ctx, Step{Version: o.version})
			case *corev1.Event:
				step := Step{Event: o, Version: o.ResourceVersion}
				if e.Type == watch.Deleted { // the cluster forgets it: nothing has happened
					step.Event = nil
				}
				err = f.step(ctx, step)
			default:
				switch {
				case f.other != nil:
					return f.other
				case e.Type == watch.Error && expired(apierrors.FromObject(e.Object)):
					return errExpired
				}
				err = fmt.Errorf("watch events: the cluster said %T: %w", e.Object, apierrors.FromObject(e.Object))
			}
			if err != nil {
				return err
			}
		}
	}
}

func (f *Feed) step(ctx context.Context, s Step) error {
	select {
	case f.steps <- s:
		f.version = s.Version
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// failed counts an error, tells of it, and has the next question wait.
func (f *Feed) failed(ctx context.Context, err error) error {
	f.told = false
	f.errors++
	f.wait = backoff(f.errors)
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		f.wait = max(f.wait, min(time.Duration(seconds)*time.Second, maxAsked))
	}
	return f.sign(ctx, Sign{Errors: f.errors, Err: Explained(err)})
}

// works says that the cluster answers as it should.
func (f *Feed) works(ctx context.Context) error {
	if f.told {
		return nil
	}
	f.told, f.errors, f.wait = true, 0, 0
	return f.sign(ctx, Sign{})
}

func (f *Feed) sign(ctx context.Context, s Sign) error {
	select {
	case f.signs <- s:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *Feed) pause(ctx context.Context) error {
	if f.wait == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(f.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// asker is what the watcher of client-go begins watches with. That one would hide every
// error but the end, ask a version that is forgotten again and again, and keep
// bookmarks to itself.
type asker struct{ *Feed }

// WatchWithContext begins a watch, and returns when it has begun or ctx ends.
func (a asker) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	var w watch.Interface
	err := a.Try(ctx, hopeless, func(ctx context.Context) (err error) {
		if err = a.still(ctx, opts.ResourceVersion); err == nil {
			w, err = a.source.Watch(ctx, opts)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		if err == nil {
			w.Stop()
		}
		return nil, io.EOF // which it takes for an end, and looks at ctx
	case err != nil:
		if errors.Is(err, ErrOther) {
			a.other = err
		}
		gone := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
		status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: err.Error()}
		if !expired(err) {
			status.Reason = reasonAhead
		}
		gone.Error(status)
		return gone, nil
	}
	return relay(ctx, a.Feed, w), nil
}

// relayed is a watch that was looked at.
type relayed struct {
	result chan watch.Event
	cancel context.CancelFunc
	ended  chan struct{}
}

func (r *relayed) ResultChan() <-chan watch.Event { return r.result }

// Stop returns when nothing of it runs any more.
func (r *relayed) Stop() {
	r.cancel()
	<-r.ended
}

// relay hands on what a watch says but its errors, which end it and are counted, and
// says when it works. While it runs the feed's count is its own: the watcher asks anew,
// and ends, only once it has stopped it.
func relay(ctx context.Context, f *Feed, from watch.Interface) watch.Interface {
	ctx, cancel := context.WithCancel(ctx)
	r := &relayed{result: make(chan watch.Event), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer close(r.result)
		defer from.Stop()
		works := time.NewTimer(settled)
		defer works.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-works.C:
				if f.works(ctx) != nil {
					return
				}
			case e, more := <-from.ResultChan():
				if !more {
					return
				}
				if e.Type == watch.Error {
					if err := apierrors.FromObject(e.Object); !expired(err) {
						_ = f.failed(ctx, err) // else ctx has ended
						return
					}
				} else if f.works(ctx) != nil {
					return
				}
				if e.Type == watch.Bookmark {
					e = marked(e)
				}
				select {
				case r.result <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return r
}
