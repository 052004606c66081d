// Package objects watches the pods, nodes, deployments and jobs of a cluster, and
// keeps of each what faults are found by, and its labels.
//
// It is client-go's reflector (lists, watches, and both again with back-off) over a
// store of our own, which passes on what changed as it comes. An informer would put a
// queue in between that has no bound; here, who takes the updates holds up the watch.
// The labels come from the same watch: these kinds are watched with their state
// anyway, and a second watch of their metadata would say nothing more.
//
// It decides nothing about faults. A kind that the cluster refuses is done without,
// and asked for again.
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

// pageSize is how many objects are asked for at once where a server doesn't stream a
// list: only so many are in memory as a whole.
const pageSize = 500

// Update is one thing that is known anew; one of its members is set.
type Update struct {
	Pod        *fault.Pod
	Node       *fault.Node
	Deployment *fault.Deployment
	Job        *fault.Job
	// Gone is an object that was deleted.
	Gone *kube.Object
	// Synced is a kind whose first list is complete.
	Synced string
}

// Apply takes an update into a book.
func (u Update) Apply(b *fault.Tracker, now time.Time) []fault.Finding {
	switch {
	case u.Pod != nil:
		return b.Pod(u.Pod, now)
	case u.Node != nil:
		return b.Node(u.Node, now)
	case u.Deployment != nil:
		return b.Deployment(u.Deployment, now)
	case u.Job != nil:
		return b.Job(u.Job, now)
	case u.Gone != nil:
		return b.Gone(*u.Gone, now)
	default:
		return b.Synced(u.Synced, now)
	}
}

// Config is what a Watcher needs.
type Config struct {
	Client *api.Client
	// Updates are taken until the watcher's context ends. Those of one object come in
	// order.
	Updates chan<- Update
	// Logger is told what is refused, once each time that begins, and when it ends.
	// It may be nil.
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

// New returns a watcher that does nothing before Run.
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
	// client-go logs what it does of itself, in a form of its own. What matters is told
	// by us.
	ctx = klog.NewContext(ctx, logr.Discard())
	var running sync.WaitGroup
	for _, k := range kinds {
		s := w.stores[k.name]
		s.ctx = ctx
		from := &source{ListWatch: k.resource(w.cfg.Client).ListWatch(), watcher: w, kind: k}
		r := cache.NewReflectorWithOptions(from, k.object, s, cache.ReflectorOptions{Name: "tocsin", TypeDescription: k.name})
		running.Go(func() { r.RunWithContext(ctx) })
	}
	running.Wait()
	return ctx.Err()
}

// Labels are those of an object as they are published, nil where they aren't known.
// Nobody may change them.
func (w *Watcher) Labels(o kube.Object) map[string]string {
	if s := w.stores[o.Kind]; s != nil {
		if i := s.find(o); i != nil {
			return i.meta.Labels
		}
	}
	return nil
}

// Awaits says whether the state of an object has yet to come: its kind is watched, and it
// is not known.
func (w *Watcher) Awaits(o kube.Object) bool {
	s := w.stores[o.Kind]
	if s == nil {
		return false
	}
	w.mu.Lock()
	_, refused := w.refused[o.Kind]
	w.mu.Unlock()
	return !refused && s.find(o) == nil
}

// find is what is known of an object, nil where that is nothing.
func (s *store) find(o kube.Object) *item {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.objects[o.Namespace+"/"+o.Name]
	// A node's uid is not what its kubelet says it is.
	if i == nil || o.Kind != fault.KindNode && o.UID != "" && o.UID != i.meta.UID && o.UID != i.meta.Alias {
		return nil
	}
	return i
}

// Len is how many objects are known.
func (w *Watcher) Len() int {
	n := 0
	for _, s := range w.stores {
		s.mu.RLock()
		n += len(s.objects)
		s.mu.RUnlock()
	}
	return n
}

// Refused says of which kinds the cluster gives nothing now, and why, in order.
func (w *Watcher) Refused() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(w.refused)) {
		out = append(out, kind+": "+w.refused[kind])
	}
	return out
}

// asked notes how the cluster answered.
func (w *Watcher) asked(k *kind, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, before := w.refused[k.name]
	switch {
	case err == nil && before:
		delete(w.refused, k.name)
		w.cfg.Logger.Info("the cluster gives objects again", "kind", k.name)
	case err == nil || !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsNotFound(err):
		// What doesn't work for a while, the watch of the events tells.
	case !before:
		w.refused[k.name] = err.Error()
		w.cfg.Logger.Warn("the cluster refuses objects: faults are found without them", "kind", k.name, "right", "get, list, watch "+k.plural, "error", err)
	}
}

// source asks a cluster for objects of one kind.
type source struct {
	*cache.ListWatch
	watcher *Watcher
	kind    *kind
}

// ListWithContext lists in pages, and keeps of each page only what is needed.
func (s *source) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	// A list at a version, or at once from the server's memory ("0"), comes without
	// pages. The newest is at least as new as any version that is asked for.
	opts.ResourceVersion, opts.ResourceVersionMatch, opts.Limit = "", "", pageSize
	out := &items{}
	for {
		page, err := s.ListWatch.ListWithContext(ctx, opts)
		s.watcher.asked(s.kind, err)
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

// WatchWithContext begins a watch.
func (s *source) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.ListWatch.WatchWithContext(ctx, opts)
	s.watcher.asked(s.kind, err)
	if opts.SendInitialEvents != nil && (net.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err)) {
		// Of these, while a list is streamed, the reflector waits for up to half a minute
		// without a look at its context (client-go 0.37, watchList). Of any other it goes
		// on to a list, and what that fails with it waits for as it should.
		return nil, errors.New(err.Error())
	}
	return w, err
}

// store is what is known of one kind. The reflector alone changes it.
type store struct {
	kind    *kind
	watcher *Watcher
	ctx     context.Context
	synced  bool

	mu      sync.RWMutex
	objects map[string]*item
}

// Transformer keeps what is needed of what comes while a list is streamed.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		switch o := o.(type) {
		case *item:
			return o, nil
		case runtime.Object:
			return s.kind.reduce(s.watcher.mask, o), nil
		default:
			return nil, fmt.Errorf("an object of type %T", o)
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

// Add takes an object that is new, or was changed.
func (s *store) Add(o any) error { return s.Update(o) }

// Update takes an object that was changed.
func (s *store) Update(o any) error {
	i, err := s.item(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := s.objects[i.key()]
	s.objects[i.key()] = i
	s.mu.Unlock()
	s.tell(before, i)
	return nil
}

// Delete takes an object that is gone.
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

// Replace takes a list. What is the same as before is not told again.
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
		s.tell(before[i.key()], i)
	}
	if !s.synced {
		s.synced = true
		s.emit(Update{Synced: s.kind.name})
	}
	return nil
}

// Resync has nothing to do: nobody asks for it.
func (s *store) Resync() error { return nil }

func (s *store) tell(before, i *item) {
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

// emit waits until the update is taken. No lock is held meanwhile: who takes it may be
// asking for labels.
func (s *store) emit(u Update) {
	select {
	case s.watcher.cfg.Updates <- u:
	case <-s.ctx.Done():
	}
}
