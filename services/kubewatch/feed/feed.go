// Package feed reads the events of one cluster, in order and each once. It continues after
// closed watches, servers that are unreachable, and resourceVersions that the cluster no
// longer knows.
//
// It decides when to retry, and which events of a new list were missed. It does not know
// what is done with an event, nor where the progress is saved.
package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/pager"
)

const (
	// pageSize is how many events one request for a page asks for.
	pageSize = 500
	// listTimeout bounds one request for a page.
	listTimeout = 30 * time.Second
)

// Step is one step of the feed: an event that was added or modified, or only a new version.
type Step struct {
	// Event is nil if only the version changed.
	Event *corev1.Event
	// Version is the resourceVersion that the feed has reached.
	Version string
}

// Source lists and watches the events of a cluster. [github.com/tocsin-bus/tocsin/services/kubewatch/api.Resource]
// implements it.
type Source interface {
	List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Config configures a Feed.
type Config struct {
	Source Source
	// Health receives changes of the connection's health, Steps the steps. The feed waits
	// until they are received.
	Health chan<- Health
	Steps  chan<- Step
	// Relisted is called for each list that is needed because the cluster no longer knows
	// the version that was read. It may be nil.
	Relisted func()
	// CheckIdentity is called after errors. It returns an error that wraps ErrOther if
	// another cluster answers. It may be nil.
	CheckIdentity func(ctx context.Context) error
	Logger        *slog.Logger
}

// Feed reads the events of a cluster. It is for one goroutine.
type Feed struct {
	cfg  Config
	conn connection
	// version is the resourceVersion that was read.
	version string
}

// ErrOther is returned if another cluster answers than before.
var ErrOther = errors.New("another cluster answers at this address")

// errBehind is returned if the cluster was restored to an older state.
var errBehind = errors.New("the cluster is at an older state than before")

// errExpired is returned if the cluster no longer knows the version that was read.
var errExpired = errors.New("the resourceVersion is too old")

// New returns a feed.
func New(cfg Config) *Feed {
	if cfg.Relisted == nil {
		cfg.Relisted = func() {}
	}
	if cfg.CheckIdentity == nil {
		cfg.CheckIdentity = func(context.Context) error { return nil }
	}
	return &Feed{cfg: cfg}
}

// Retry calls request until it succeeds, with a pause after each error, and reports the
// errors as the feed's health. It returns early if ctx ends or isFinal is true for an
// error; isFinal may be nil.
func (f *Feed) Retry(ctx context.Context, isFinal func(error) bool, request func(context.Context) error) error {
	for {
		if err := f.conn.wait(ctx); err != nil {
			return err
		}
		err := request(ctx)
		switch {
		case err == nil:
			f.conn.answered()
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isFinal != nil && isFinal(err):
			return err
		}
		if err := f.failed(ctx, err); err != nil {
			return err
		}
	}
}

// Run reads from a version on until ctx ends, or until another cluster answers, with
// ErrOther. Without a version it starts with the events from now on: older ones happened
// before the watch began.
func (f *Feed) Run(ctx context.Context, version string) error {
	f.version = version
	if err := f.checkVersion(ctx); err != nil {
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
			f.cfg.Logger.Info("the cluster no longer knows the version that was read; all events are listed", "resourceVersion", f.version)
			f.cfg.Relisted()
			if err := f.relist(ctx); err != nil {
				return err
			}
		case err != nil:
			if err := f.failed(ctx, err); err != nil {
				return err
			}
			// The cluster may have been restored to an older state, without that version.
			if err := f.checkVersion(ctx); err != nil {
				return err
			}
		}
	}
}

// checkVersion checks the version against the cluster. A cluster that is behind it was restored
// to an older state: the events in between are unknown, and the feed starts from now.
func (f *Feed) checkVersion(ctx context.Context) error {
	var now string
	err := f.Retry(ctx, nil, func(ctx context.Context) (err error) {
		now, err = f.currentVersion(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if f.version != "" && isNewer(f.version, now) {
		f.cfg.Logger.Warn("the cluster was restored to an older state; its events are watched from now on", "was", f.version, "is", now)
		f.version = ""
	}
	if f.version != "" {
		return nil
	}
	return f.send(ctx, Step{Version: now})
}

// currentVersion returns the resourceVersion of the cluster.
func (f *Feed) currentVersion(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := eventList(f.cfg.Source.List(ctx, metav1.ListOptions{Limit: 1}))
	if err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

// checkCluster checks, after errors, that the same cluster answers and that it is not behind
// a version. The API server has no watch cache for events: a watch from a version that it
// has not reached is silent until it does.
func (f *Feed) checkCluster(ctx context.Context, version string) error {
	if !f.conn.hasErrors() {
		return nil
	}
	if err := f.cfg.CheckIdentity(ctx); err != nil {
		return err
	}
	now, err := f.currentVersion(ctx)
	if err == nil && isNewer(version, now) {
		err = fmt.Errorf("%w: it is at %s, and was watched up to %s", errBehind, now, version)
	}
	return err
}

// relist sends the events of a new list that were not read yet, oldest first, and continues
// from the version of the list.
func (f *Feed) relist(ctx context.Context) error {
	var list *corev1.EventList
	err := f.Retry(ctx, nil, func(ctx context.Context) (err error) {
		list, err = f.listAll(ctx)
		return err
	})
	if err != nil {
		return err
	}
	missed := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return !isNewer(e.ResourceVersion, f.version) })
	slices.SortFunc(missed, func(a, b corev1.Event) int { return compareVersions(a.ResourceVersion, b.ResourceVersion) })
	for i := range missed {
		if err := f.send(ctx, Step{Event: &missed[i], Version: missed[i].ResourceVersion}); err != nil {
			return err
		}
	}
	return f.send(ctx, Step{Version: list.ResourceVersion})
}

// listAll lists all events, in pages.
func (f *Feed) listAll(ctx context.Context) (*corev1.EventList, error) {
	p := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		return f.cfg.Source.List(ctx, opts)
	})
	p.PageSize = pageSize
	o, _, err := p.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pages, ok := o.(*internalversion.List)
	if !ok { // one page
		return eventList(o, nil)
	}
	var all corev1.EventList
	all.ResourceVersion = pages.ResourceVersion
	for _, item := range pages.Items {
		if e, ok := item.(*corev1.Event); ok {
			all.Items = append(all.Items, *e)
		}
	}
	return &all, nil
}

func eventList(o runtime.Object, err error) (*corev1.EventList, error) {
	if err != nil {
		return nil, err
	}
	list, ok := o.(*corev1.EventList)
	if !ok {
		return nil, fmt.Errorf("list events: the cluster answered with %T", o)
	}
	return list, nil
}

// send sends a step, and records its version as read.
func (f *Feed) send(ctx context.Context, s Step) error {
	select {
	case f.cfg.Steps <- s:
		f.version = s.Version
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
