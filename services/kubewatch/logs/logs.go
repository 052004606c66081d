// Package logs reads the ends of containers' logs, within bounds: so many at once of a
// cluster and in all, so much of each, and so long.
//
// It decides what is kept of a log (its last lines, masked and harmless, and whether
// one is the mark of a panic), and says in words why there is none. It doesn't know
// why a log is wanted.
package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/services/kubewatch/panics"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Defaults of a Config.
const (
	DefaultPerCluster = 5
	DefaultGlobal     = 20
	DefaultTimeout    = 10 * time.Second
)

const (
	// tailLines is how many lines are asked for. The node cuts a log to its last lines
	// first, and that to limitBytes from its beginning: so much has to be left to it
	// that the end comes along. Where even that doesn't do, see read.
	tailLines  = 200
	limitBytes = 256 << 10
	// maxWaiting is how many captures of a cluster may wait for their turn. Past it, a
	// capture is not made, and its logs say so.
	maxWaiting = 200
	// maxError bounds what is said of a log that could not be had, in characters.
	maxError = 300
)

// Source is a cluster whose containers' logs can be read.
type Source interface {
	Logs(ctx context.Context, namespace, pod string, opts corev1.PodLogOptions) (io.ReadCloser, error)
}

// Config is what a Capturer keeps to. Zero is the default of each.
type Config struct {
	// PerCluster is how many captures of a cluster are under way at once, Global how
	// many of all. A capture reads one log at a time.
	PerCluster, Global int
	// MaxBytes is how much is kept of a log: its last bytes. It is kube.MaxLog where
	// it is zero.
	MaxBytes int
	// MaxContainers is of how many containers of a fault there are logs, each with
	// the run before the present one. It is kube.MaxContainers where it is zero.
	MaxContainers int
	// Timeout is for one log.
	Timeout time.Duration
}

// Capturer reads logs. It is one for the process and safe for concurrent use.
type Capturer struct {
	cfg    Config
	mask   *redact.Engine
	global chan struct{}

	mu       sync.Mutex
	clusters map[string]*cluster
	stats    Stats
}

// cluster is the room of one.
type cluster struct {
	room chan struct{}
	// waiting counts those without a place yet, using all of them.
	waiting, using int
}

// Stats count since New: Captured are logs, Failed those that could not be had, Refused
// captures that were not made because too many waited. Waiting captures have no turn
// yet.
type Stats struct {
	Captured, Failed, Refused uint64
	Waiting                   int
}

// New returns a Capturer.
func New(cfg Config) *Capturer {
	for _, d := range []struct {
		value    *int
		standard int
	}{{&cfg.PerCluster, DefaultPerCluster}, {&cfg.Global, DefaultGlobal}, {&cfg.MaxBytes, kube.MaxLog}, {&cfg.MaxContainers, kube.MaxContainers}} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	return &Capturer{cfg: cfg, mask: redact.New(), global: make(chan struct{}, cfg.Global), clusters: map[string]*cluster{}}
}

// Stats says how it stands.
func (c *Capturer) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	for _, k := range c.clusters {
		s.Waiting += k.waiting
	}
	return s
}

// Capture reads the logs that are wanted, in that order. It waits for its turn, and
// ends early with ctx: what is not read by then says so.
func (c *Capturer) Capture(ctx context.Context, name string, from Source, wanted *fault.Capture) []kube.Log {
	targets := c.bounded(wanted.Targets)
	leave, why := c.enter(ctx, name)
	if leave == nil {
		out := make([]kube.Log, len(targets))
		for i, t := range targets {
			out[i] = kube.Log{Container: t.Container, Previous: t.Previous, Error: why}
		}
		return out
	}
	defer leave()
	out := make([]kube.Log, 0, len(targets))
	stuck := false
	for _, t := range targets {
		l := kube.Log{Container: t.Container, Previous: t.Previous, Error: "not read: the log before took too long"}
		if !stuck {
			// All of a pod's logs come from one node: where that doesn't answer, the
			// others' would only keep the place from those of healthy nodes.
			l, stuck = c.one(ctx, from, wanted, t)
		}
		c.mu.Lock()
		if l.Error == "" {
			c.stats.Captured++
		} else {
			c.stats.Failed++
		}
		c.mu.Unlock()
		out = append(out, l)
	}
	return distinct(out)
}

// bounded are the targets of the first MaxContainers containers.
func (c *Capturer) bounded(targets []fault.Target) []fault.Target {
	var out []fault.Target
	seen := map[string]bool{}
	for _, t := range targets {
		if !seen[t.Container] && len(seen) == c.cfg.MaxContainers {
			continue
		}
		seen[t.Container] = true
		out = append(out, t)
	}
	return out
}

// distinct takes out the text of a container that ended and was not started again
// since: the node gives the log of the run before for it.
func distinct(logs []kube.Log) []kube.Log {
	for i := range logs {
		for j := range i {
			p, l := &logs[j], &logs[i]
			if l.Container == p.Container && p.Previous && !l.Previous && l.Sample != "" && l.Sample == p.Sample {
				l.Sample, l.Truncated = "", false
				l.Error = "the same as the log of the run before: it was not started again since"
			}
		}
	}
	return logs
}

// enter waits for a turn. leave is nil where there was none, and why says so.
func (c *Capturer) enter(ctx context.Context, name string) (leave func(), why string) {
	c.mu.Lock()
	k := c.clusters[name]
	if k == nil {
		k = &cluster{room: make(chan struct{}, c.cfg.PerCluster)}
		c.clusters[name] = k
	}
	if k.waiting >= maxWaiting {
		c.stats.Refused++
		c.mu.Unlock()
		return nil, fmt.Sprintf("not read: %d captures of this cluster wait already", maxWaiting)
	}
	k.waiting++
	k.using++
	c.mu.Unlock()
	// A place among all is only taken with one of the cluster, so that a cluster whose
	// captures wait takes none from the others.
	entered := false
	select {
	case k.room <- struct{}{}:
		select {
		case c.global <- struct{}{}:
			entered = true
		case <-ctx.Done():
			<-k.room
		}
	case <-ctx.Done():
	}
	c.mu.Lock()
	k.waiting--
	c.mu.Unlock()
	gone := func() {
		c.mu.Lock()
		if k.using--; k.using == 0 {
			delete(c.clusters, name)
		}
		c.mu.Unlock()
	}
	if !entered {
		gone()
		return nil, "not read: " + reason(ctx.Err())
	}
	return func() {
		<-c.global
		<-k.room
		gone()
	}, ""
}

// one reads one log, and says whether its time was up.
func (c *Capturer) one(ctx context.Context, from Source, wanted *fault.Capture, t fault.Target) (l kube.Log, late bool) {
	l = kube.Log{Container: t.Container, Previous: t.Previous}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	data, cut, err := c.read(ctx, from, wanted, t)
	if err != nil {
		l.Error = c.clean(reason(err), maxError)
		return l, errors.Is(err, context.DeadlineExceeded)
	}
	l.Sample, l.Truncated, l.HasPanic = c.sample(data, cut)
	return l, false
}

// cuts say what is missing of a log: anything, and whether it may begin, or end, within
// a line.
type cuts struct{ any, begin, end bool }

// read asks for the last lines of a log. When they are more than the limit, their
// beginning came and the end is missing: fewer lines are asked for then, a quarter
// of them each time, and of a line that is longer than the limit by itself its beginning is
// all there is to have.
func (c *Capturer) read(ctx context.Context, from Source, wanted *fault.Capture, t fault.Target) (data []byte, cut cuts, err error) {
	limit := max(limitBytes, 4*c.cfg.MaxBytes)
	// One more than is kept tells whether there was more.
	for lines := int64(tailLines + 1); ; lines = max(lines/4, 1) {
		bytesLimit := int64(limit)
		r, err := from.Logs(ctx, wanted.Namespace, wanted.Pod, corev1.PodLogOptions{
			Container: t.Container, Previous: t.Previous, TailLines: &lines, LimitBytes: &bytesLimit,
		})
		if err != nil {
			return nil, cut, err
		}
		// A server may not keep to the limit.
		data, err = io.ReadAll(io.LimitReader(r, bytesLimit))
		_ = r.Close() // it was only read from
		if err != nil {
			return nil, cut, fmt.Errorf("read the log: %w", err)
		}
		if len(data) >= limit && lines > 1 {
			// Nodes count parts of long lines (16 KiB each) as lines.
			cut.any, cut.begin = true, true
			continue
		}
		if bytes.Count(data, []byte("\n")) > tailLines {
			_, data, _ = bytes.Cut(data, []byte("\n"))
			cut.any = true
		}
		if len(data) >= limit {
			cut.any, cut.end = true, true
		}
		return data, cut, nil
	}
}

// lead is how much before the sample is masked along with it, in bytes: what says that
// the beginning of the sample is part of a secret may stand before it.
const lead = 8 << 10

// maxToken is how much is taken for the part of a token where a line is cut, in bytes:
// few are longer, and a line may have no end.
const maxToken = 4 << 10

// sample is what is kept of a log: its end, without secrets and with every character
// in sight.
func (c *Capturer) sample(data []byte, missing cuts) (sample string, truncated, marked bool) {
	truncated = missing.any
	tail := kube.Tail(data, c.cfg.MaxBytes+lead)
	if len(tail) < len(data) {
		truncated, missing.begin = true, true
	}
	if missing.begin { // the first line has lost its beginning, and what is left of it may be half a secret
		if i := bytes.IndexByte(tail, '\n'); i >= 0 && i < lead {
			tail = tail[i+1:]
		} else {
			i := bytes.IndexFunc(tail[:min(len(tail), maxToken)], notOfSecret)
			if i++; i == 0 {
				i = min(len(tail), maxToken)
			}
			tail = tail[i:]
		}
	}
	if missing.end {
		from := max(0, len(tail)-maxToken)
		tail = tail[:from+1+bytes.LastIndexFunc(tail[from:], notOfSecret)]
	}
	text := sanitize.Strip(c.mask.String(headless(string(tail))))
	// Masks may be longer than what they stand for, and pictures of controls are.
	if len(text) > c.cfg.MaxBytes {
		text, truncated = string(kube.Tail([]byte(text), c.cfg.MaxBytes)), true
	}
	_, marked = panics.Find(text)
	return text, truncated, marked
}

// notOfSecret says that a character stands in no token: those are letters, digits and
// some signs.
func notOfSecret(r rune) bool {
	return r < 0x80 && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') && !strings.ContainsRune("+/=_-.~%", r)
}

// headless masks the end of a private key whose beginning was cut off: its lines look
// like nothing by themselves.
func headless(text string) string {
	const end, key = "-----END ", "PRIVATE KEY"
	i := strings.Index(text, end)
	if i < 0 || strings.Contains(text[:i], "-----BEGIN ") {
		return text
	}
	label, rest, closed := strings.Cut(text[i+len(end):], "-----")
	if !closed || !strings.HasSuffix(label, key) {
		return text
	}
	return "[REDACTED:private_key]" + rest
}

func (c *Capturer) clean(s string, limit int) string {
	return sanitize.Cut(sanitize.Visible(c.mask.String(s)), limit)
}

// reason says in words why a log could not be had.
func reason(err error) string {
	var status apierrors.APIStatus
	message := ""
	if errors.As(err, &status) {
		message = status.Status().Message
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "the watch of the cluster ended"
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	case apierrors.IsForbidden(err):
		return "the cluster refuses it: kubewatch needs the right to get pods/log (" + message + ")"
	case apierrors.IsUnauthorized(err):
		return "the cluster does not know who asks: kubewatch's credential is refused"
	case apierrors.IsNotFound(err):
		return "the pod or its node is gone (" + message + ")"
	case apierrors.IsTooManyRequests(err):
		return "the cluster has too much to do"
	case strings.Contains(message, "previous terminated container"):
		return "there is no log of the run before (" + message + ")"
	case strings.Contains(message, "is waiting to start"), strings.Contains(message, "ContainerCreating"):
		return "the container has not started (" + message + ")"
	case message != "":
		return message
	case !utf8.ValidString(err.Error()):
		return "the cluster's answer can't be read"
	default:
		return err.Error()
	}
}
