// Package objects watches the pods, nodes, deployments and jobs of a cluster. It keeps the
// labels of each, and the part of its state from which faults are found.
//
// client-go's reflector lists and watches, with back-off; its store here passes on every
// change. An informer has an unbounded queue in between; here a slow receiver of the updates
// slows the watch down. The labels come from the same watch: a second watch of the metadata
// would contain nothing more.
//
// It does not decide what is a fault. It goes on without a kind that the cluster refuses, and
// retries it.
package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// pageSize is how many objects one request asks for if a server does not stream lists. It
// bounds how many complete objects are in memory.
const pageSize = 500

// Update is one change. One of its fields is set.
type Update struct {
	Pod        *fault.Pod
	Node       *fault.Node
	Deployment *fault.Deployment
	Job        *fault.Job
	// Gone is a deleted object.
	Gone *kube.Object
	// Synced is the kind whose first list is complete.
	Synced string
}

// Apply passes an update to a tracker.
func (u Update) Apply(t *fault.Tracker, now time.Time) []fault.Finding {
	switch {
	case u.Pod != nil:
		return t.Pod(u.Pod, now)
	case u.Node != nil:
		return t.Node(u.Node, now)
	case u.Deployment != nil:
		return t.Deployment(u.Deployment, now)
	case u.Job != nil:
		return t.Job(u.Job, now)
	case u.Gone != nil:
		return t.Gone(*u.Gone, now)
	default:
		return t.Synced(u.Synced, now)
	}
}

// Config configures a Watcher.
type Config struct {
	Client *api.Client
	// Updates receives the changes; those of one object come in order. The watcher waits
	// until they are received.
	Updates chan<- Update
	// Logger logs when the cluster refuses a kind and when it no longer does. It may be nil.
	Logger *slog.Logger
}

// Watcher watches the objects of a cluster.
type Watcher struct {
	cfg    Config
	mask   *redact.Engine
	stores map[string]*store

	mu      sync.Mutex
	refused map[string]string
}

// New returns a watcher. Run starts it.
func New(cfg Config) *Watcher {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{cfg: cfg, mask: redact.New(), stores: map[string]*store{}, refused: map[string]string{}}
	for _, k := range kinds {
		w.stores[k.name] = &store{kind: k, watcher: w, objects: map[string]*item{}}
	}
	return w
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	// client-go's log has a format of its own, and we log what matters.
	ctx = klog.NewContext(ctx, logr.Discard())
	var running sync.WaitGroup
	for _, k := range kinds {
		s := w.stores[k.name]
		s.ctx = ctx
		listWatch := &source{ListWatch: k.resource(w.cfg.Client).ListWatch(), watcher: w, kind: k}
		r := cache.NewReflectorWithOptions(listWatch, k.object, s, cache.ReflectorOptions{Name: "tocsin", TypeDescription: k.name})
		running.Go(func() { r.RunWithContext(ctx) })
	}
	running.Wait()
	return ctx.Err()
}

// Labels returns the labels of an object in their published form, or nil. They are
// read-only.
func (w *Watcher) Labels(o kube.Object) map[string]string {
	if s := w.stores[o.Kind]; s != nil {
		if i := s.find(o); i != nil {
			return i.meta.Labels
		}
	}
	return nil
}

// IsPending reports whether the state of an object is to come: its kind is watched, and it is
// not known yet.
func (w *Watcher) IsPending(o kube.Object) bool {
	s := w.stores[o.Kind]
	if s == nil {
		return false
	}
	w.mu.Lock()
	_, refused := w.refused[o.Kind]
	w.mu.Unlock()
	return !refused && s.find(o) == nil
}

// find returns an object, or nil.
func (s *store) find(o kube.Object) *item {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.objects[o.Namespace+"/"+o.Name]
	// The uid in a kubelet's events is not the node's.
	if i == nil || o.Kind != fault.KindNode && o.UID != "" && o.UID != i.meta.UID && o.UID != i.meta.Alias {
		return nil
	}
	return i
}

// Len returns the number of known objects.
func (w *Watcher) Len() int {
	n := 0
	for _, s := range w.stores {
		s.mu.RLock()
		n += len(s.objects)
		s.mu.RUnlock()
	}
	return n
}

// Refused returns the kinds that the cluster refuses now, with the reasons, in order.
func (w *Watcher) Refused() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(w.refused)) {
		out = append(out, kind+": "+w.refused[kind])
	}
	return out
}

// recordAnswer records whether the cluster refuses a kind.
func (w *Watcher) recordAnswer(k *kind, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, before := w.refused[k.name]
	switch {
	case err == nil && before:
		delete(w.refused, k.name)
		w.cfg.Logger.Info("the cluster allows reading objects again", "kind", k.name)
	case err == nil || !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsNotFound(err):
		// The feed reports temporary errors.
	case !before:
		w.refused[k.name] = err.Error()
		w.cfg.Logger.Warn("the cluster refuses to list or watch objects; faults are found without them", "kind", k.name, "needed_rights", "get, list, watch "+k.plural, "error", err)
	}
}

// source lists and watches the objects of one kind.
type source struct {
	*cache.ListWatch
	watcher *Watcher
	kind    *kind
}

// ListWithContext lists in pages and keeps only the needed part of each page.
func (s *source) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	// A list at a version, or from the server's cache ("0"), has no pages. The newest list is
	// at least as new as any requested version.
	opts.ResourceVersion, opts.ResourceVersionMatch, opts.Limit = "", "", pageSize
	out := &items{}
	for {
		page, err := s.ListWatch.ListWithContext(ctx, opts)
		s.watcher.recordAnswer(s.kind, err)
		if err != nil {
			return nil, err
		}
		if out.ListMeta, err = s.kind.page(page, func(o runtime.Object) { out.Items = append(out.Items, s.kind.reduce(s.watcher.mask, o)) }); err != nil {
			return nil, err
		}
		if out.Continue == "" {
			return out, nil
		}
		opts.Continue = out.Continue
	}
}

// WatchWithContext starts a watch.
func (s *source) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.ListWatch.WatchWithContext(ctx, opts)
	s.watcher.recordAnswer(s.kind, err)
	if opts.SendInitialEvents != nil && (net.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)) {
		// While a list is streamed, the reflector reacts to these errors with a wait of up to
		// 30 s that ignores its context (client-go 0.37, watchList). After any other error it
		// lists, and waits properly if that fails.
		return nil, errors.New(err.Error())
	}
	return w, err
}

// store contains the objects of one kind. Only the reflector changes it.
type store struct {
	kind    *kind
	watcher *Watcher
	ctx     context.Context
	synced  bool

	mu      sync.RWMutex
	objects map[string]*item
}

// Transformer keeps only the needed part of the objects of a streamed list.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		switch o := o.(type) {
		case *item:
			return o, nil
		case runtime.Object:
			return s.kind.reduce(s.watcher.mask, o), nil
		default:
			return nil, fmt.Errorf("unexpected object of type %T", o)
		}
	}
}

func (s *store) item(o any) (*item, error) {
	i, err := s.Transformer()(o)
	if err != nil {
		return nil, err
	}
	return i.(*item), nil
}

// Add implements cache.ReflectorStore.
func (s *store) Add(o any) error { return s.Update(o) }

// Update stores an object and passes it on.
func (s *store) Update(o any) error {
	i, err := s.item(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := s.objects[i.key()]
	s.objects[i.key()] = i
	s.mu.Unlock()
	s.passOn(before, i)
	return nil
}

// Delete removes an object and passes that on.
func (s *store) Delete(o any) error {
	i, err := s.item(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := s.objects[i.key()]
	delete(s.objects, i.key())
	s.mu.Unlock()
	if before != nil {
		s.gone(before)
	}
	return nil
}

// Replace stores a list and passes on what has changed.
func (s *store) Replace(list []any, _ string) error {
	next := make(map[string]*item, len(list))
	order := make([]*item, 0, len(list))
	for _, o := range list {
		i, err := s.item(o)
		if err != nil {
			return err
		}
		if !s.synced {
			i.meta.Initial = true
		}
		next[i.key()] = i
		order = append(order, i)
	}
	s.mu.Lock()
	before := s.objects
	s.objects = next
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if next[key] == nil {
			s.gone(before[key])
		}
	}
	for _, i := range order {
		s.passOn(before[i.key()], i)
	}
	if !s.synced {
		s.synced = true
		s.emit(Update{Synced: s.kind.name})
	}
	return nil
}

// Resync does nothing: the reflector has no resync period.
func (s *store) Resync() error { return nil }

func (s *store) passOn(before, i *item) {
	if before != nil && before.meta.UID != i.meta.UID {
		s.gone(before)
		before = nil
	}
	if before == nil || before.version != i.version {
		s.emit(i.update)
	}
}

func (s *store) gone(i *item) {
	o := i.meta.Object(s.kind.name)
	s.emit(Update{Gone: &o})
}

// emit waits until the update is received. It holds no lock, because the receiver may read
// labels.
func (s *store) emit(u Update) {
	select {
	case s.watcher.cfg.Updates <- u:
	case <-s.ctx.Done():
	}
}
