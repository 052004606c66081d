package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
)

// workingDelay is how long a watch without results must last to count as working.
const workingDelay = 2 * time.Second

// watch sends the results of a watch as steps, until the version is no longer known, another cluster
// answers or ctx ends. client-go's RetryWatcher restarts the watch by itself, through
// retryClient, which applies the pauses and reports the errors.
func (f *Feed) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	client := &retryClient{feed: f}
	w, err := toolswatch.NewRetryWatcherWithContext(ctx, f.version, client)
	if err != nil {
		cancel()
		return fmt.Errorf("watch events: %w", err)
	}
	defer func() {
		cancel()
		for range w.ResultChan() { // until the watcher has ended
		}
		<-w.Done()
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-w.ResultChan():
			if !open {
				return errors.New("watch events: the watcher ended unexpectedly")
			}
			if err := f.handle(ctx, e, client); err != nil {
				return err
			}
		}
	}
}

// handle sends one result of the watcher as a step, or returns its error.
func (f *Feed) handle(ctx context.Context, e watch.Event, client *retryClient) error {
	switch o := e.Object.(type) {
	case *bookmark:
		return f.send(ctx, Step{Version: o.version})
	case *corev1.Event:
		step := Step{Event: o, Version: o.ResourceVersion}
		if e.Type == watch.Deleted { // the event has expired; nothing happened
			step.Event = nil
		}
		return f.send(ctx, step)
	}
	switch err := apierrors.FromObject(e.Object); {
	case client.other != nil:
		return client.other
	case e.Type == watch.Error && isExpired(err):
		return errExpired
	default:
		return fmt.Errorf("watch events: the cluster sent %T: %w", e.Object, err)
	}
}

// retryClient is the client with which the RetryWatcher starts watches. By itself the
// RetryWatcher would hide every error but the last, retry for ever with a version that the
// cluster does not know, and drop bookmarks.
type retryClient struct {
	feed *Feed
	// other wraps ErrOther if another cluster answers. It is set before the watcher sends
	// its last result.
	other error
}

// WatchWithContext starts a watch. It returns when the watch has started or ctx ends.
func (c *retryClient) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	var w watch.Interface
	err := c.feed.Retry(ctx, isPermanent, func(ctx context.Context) (err error) {
		if err = c.feed.checkCluster(ctx, opts.ResourceVersion); err == nil {
			w, err = c.feed.cfg.Source.Watch(ctx, opts)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		if err == nil {
			w.Stop()
		}
		return nil, io.EOF // the watcher takes it for the end of a watch and checks ctx
	case err != nil:
		if errors.Is(err, ErrOther) {
			c.other = err
		}
		return newFailedWatch(err), nil
	}
	return newRelayedWatch(ctx, c.feed, w), nil
}

// newFailedWatch returns a watch that fails with an error, which ends the RetryWatcher.
func newFailedWatch(err error) watch.Interface {
	w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
	status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: err.Error()}
	if !isExpired(err) {
		status.Reason = reasonAhead
	}
	w.Error(status)
	return w
}

// relayedWatch is a watch whose results are reported as the feed's health.
type relayedWatch struct {
	feed   *Feed
	source watch.Interface
	result chan watch.Event
	cancel context.CancelFunc
	ended  chan struct{}
}

// newRelayedWatch returns a watch that passes on the results of another one. Errors end it and are
// reported instead.
func newRelayedWatch(ctx context.Context, f *Feed, source watch.Interface) watch.Interface {
	ctx, cancel := context.WithCancel(ctx)
	w := &relayedWatch{feed: f, source: source, result: make(chan watch.Event), cancel: cancel, ended: make(chan struct{})}
	go w.run(ctx)
	return w
}

// ResultChan implements watch.Interface.
func (w *relayedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop ends the watch and waits for its goroutine.
func (w *relayedWatch) Stop() {
	w.cancel()
	<-w.ended
}

func (w *relayedWatch) run(ctx context.Context) {
	defer close(w.ended)
	defer close(w.result)
	defer w.source.Stop()
	working := time.NewTimer(workingDelay)
	defer working.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-working.C:
			if w.feed.succeeded(ctx) != nil {
				return
			}
		case e, open := <-w.source.ResultChan():
			if !open || !w.relayEvent(ctx, e) {
				return
			}
		}
	}
}

// relayEvent passes on one result, and reports whether the watch continues.
func (w *relayedWatch) relayEvent(ctx context.Context, e watch.Event) bool {
	if e.Type == watch.Error {
		if err := apierrors.FromObject(e.Object); !isExpired(err) {
			_ = w.feed.failed(ctx, err) // fails only if ctx has ended
			return false
		}
	} else if w.feed.succeeded(ctx) != nil {
		return false
	}
	select {
	case w.result <- wrapBookmark(e):
		return true
	case <-ctx.Done():
		return false
	}
}

// bookmark is a bookmark in a form that the RetryWatcher passes on.
type bookmark struct {
	metav1.TypeMeta
	version string
}

// GetResourceVersion returns the version, for the RetryWatcher.
func (b *bookmark) GetResourceVersion() string { return b.version }

// DeepCopyObject implements runtime.Object.
func (b *bookmark) DeepCopyObject() runtime.Object { return b }

// wrapBookmark returns a bookmark in a form that the RetryWatcher passes on, and any other
// result as it is.
func wrapBookmark(e watch.Event) watch.Event {
	if o, ok := e.Object.(*corev1.Event); ok && e.Type == watch.Bookmark {
		return watch.Event{Type: watch.Modified, Object: &bookmark{version: o.ResourceVersion}}
	}
	return e
}
