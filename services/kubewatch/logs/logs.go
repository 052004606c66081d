// Package logs reads the ends of containers' logs. It bounds how many are read at once, how
// much of each is kept, and how long reading takes.
//
// It decides what is kept of a log (its last lines, masked and made visible, and whether one
// of them is the line of a panic), and explains why a log is missing. It does not know why a
// log is wanted.
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
	// tailLines is how many lines are requested. The node cuts a log to its last lines
	// first, and then cuts those to limitBytes from their beginning, so limitBytes must be
	// large enough for the end to be included. If it is not, see read.
	tailLines  = 200
	limitBytes = 256 << 10
	// maxWaiting is how many captures of a cluster may wait. A capture beyond that is
	// refused: each of its logs has an error with the reason.
	maxWaiting = 200
	// maxError bounds the explanation of a missing log, in characters.
	maxError = 300
)

// Source reads the logs of a cluster's containers.
type Source interface {
	Logs(ctx context.Context, namespace, pod string, opts corev1.PodLogOptions) (io.ReadCloser, error)
}

// Config bounds a Capturer. The zero value of each field means its default.
type Config struct {
	// PerCluster is how many captures of a cluster run at once, Global how many of all. A
	// capture reads one log at a time.
	PerCluster, Global int
	// MaxBytes is how many bytes at the end of a log are kept; 0 means kube.MaxLog.
	MaxBytes int
	// MaxContainers is how many containers of a fault have their logs read, each with its
	// previous run; 0 means kube.MaxContainers.
	MaxContainers int
	// Timeout bounds reading one log.
	Timeout time.Duration
}

// Capturer reads logs. There is one in a process; it is safe for concurrent use.
type Capturer struct {
	cfg    Config
	mask   *redact.Engine
	global chan struct{}

	mu       sync.Mutex
	clusters map[string]*clusterCaptures
	stats    Stats
}

// clusterCaptures are the running and waiting captures of one cluster.
type clusterCaptures struct {
	slots chan struct{}
	// waiting is the number of captures without a slot, total that of all captures.
	waiting, total int
}

// Stats are counts since New. Captured counts logs, Failed missing logs, and Refused the
// captures refused because too many waited. Waiting is how many captures wait now.
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
	return &Capturer{cfg: cfg, mask: redact.New(), global: make(chan struct{}, cfg.Global), clusters: map[string]*clusterCaptures{}}
}

// Stats returns the present counts.
func (c *Capturer) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	for _, captures := range c.clusters {
		s.Waiting += captures.waiting
	}
	return s
}

// Capture reads the wanted logs, in that order. It waits for a slot. When ctx ends it returns
// early, with an error in each log that was not read.
func (c *Capturer) Capture(ctx context.Context, name string, from Source, wanted *fault.Capture) []kube.Log {
	targets := c.firstContainers(wanted.Targets)
	release, reason := c.acquire(ctx, name)
	if release == nil {
		out := make([]kube.Log, len(targets))
		for i, t := range targets {
			out[i] = kube.Log{Container: t.Container, Previous: t.Previous, Error: reason}
		}
		return out
	}
	defer release()
	out := make([]kube.Log, 0, len(targets))
	stuck := false
	for _, t := range targets {
		l := kube.Log{Container: t.Container, Previous: t.Previous, Error: "not read: reading the log before it timed out"}
		if !stuck {
			// All logs of a pod come from one node. If that does not answer, waiting for the
			// others would only take the slot from pods of healthy nodes.
			l, stuck = c.readLog(ctx, from, wanted, t)
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
	return markRepeated(out)
}

// firstContainers returns the targets of the first MaxContainers containers, and drops the
// others.
func (c *Capturer) firstContainers(targets []fault.Target) []fault.Target {
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

// markRepeated replaces a log that equals that of the previous run with an error: the container
// ended and was not restarted, so the node returned the same log for both.
func markRepeated(logs []kube.Log) []kube.Log {
	for i := range logs {
		for j := range i {
			p, l := &logs[j], &logs[i]
			if l.Container == p.Container && p.Previous && !l.Previous && l.Sample != "" && l.Sample == p.Sample {
				l.Sample, l.Truncated = "", false
				l.Error = "the same as the log of the previous run: the container was not restarted since"
			}
		}
	}
	return logs
}

// acquire waits for a slot. Without one, release is nil and reason explains it.
func (c *Capturer) acquire(ctx context.Context, name string) (release func(), reason string) {
	c.mu.Lock()
	captures := c.clusters[name]
	if captures == nil {
		captures = &clusterCaptures{slots: make(chan struct{}, c.cfg.PerCluster)}
		c.clusters[name] = captures
	}
	if captures.waiting >= maxWaiting {
		c.stats.Refused++
		c.mu.Unlock()
		return nil, fmt.Sprintf("not read: %d captures of this cluster are waiting already", maxWaiting)
	}
	captures.waiting++
	captures.total++
	c.mu.Unlock()
	// A capture takes a global slot only when it has one of its cluster, so that the waiting
	// captures of a cluster take none from the others.
	acquired := false
	select {
	case captures.slots <- struct{}{}:
		select {
		case c.global <- struct{}{}:
			acquired = true
		case <-ctx.Done():
			<-captures.slots
		}
	case <-ctx.Done():
	}
	c.mu.Lock()
	captures.waiting--
	c.mu.Unlock()
	deregister := func() {
		c.mu.Lock()
		if captures.total--; captures.total == 0 {
			delete(c.clusters, name)
		}
		c.mu.Unlock()
	}
	if !acquired {
		deregister()
		return nil, "not read: " + describeError(ctx.Err())
	}
	return func() {
		<-c.global
		<-captures.slots
		deregister()
	}, ""
}

// readLog reads one log. timedOut reports whether the node did not answer in time.
func (c *Capturer) readLog(ctx context.Context, from Source, wanted *fault.Capture, t fault.Target) (l kube.Log, timedOut bool) {
	l = kube.Log{Container: t.Container, Previous: t.Previous}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	data, cut, err := c.read(ctx, from, wanted, t)
	if err != nil {
		l.Error = c.clean(describeError(err), maxError)
		return l, errors.Is(err, context.DeadlineExceeded)
	}
	l.Sample, l.Truncated, l.HasPanic = c.sample(data, cut)
	return l, false
}

// missing describes what a log lacks: any part of it, the beginning of its first line, or the
// end of its last line.
type missing struct{ any, begin, end bool }

// read requests the last lines of a log. If they are longer than the limit, the answer has
// their beginning and lacks the end: then it requests a quarter of the lines, and so on. Of a
// single line that is longer than the limit only the beginning can be read.
func (c *Capturer) read(ctx context.Context, from Source, wanted *fault.Capture, t fault.Target) (data []byte, cut missing, err error) {
	limit := max(limitBytes, 4*c.cfg.MaxBytes)
	// One line more than is kept shows whether there are more.
	for lines := int64(tailLines + 1); ; lines = max(lines/4, 1) {
		bytesLimit := int64(limit)
		r, err := from.Logs(ctx, wanted.Namespace, wanted.Pod, corev1.PodLogOptions{
			Container: t.Container, Previous: t.Previous, TailLines: &lines, LimitBytes: &bytesLimit,
		})
		if err != nil {
			return nil, cut, err
		}
		// A server may ignore the limit.
		data, err = io.ReadAll(io.LimitReader(r, bytesLimit))
		_ = r.Close() // nothing was written
		if err != nil {
			return nil, cut, fmt.Errorf("read the log: %w", err)
		}
		if len(data) >= limit && lines > 1 {
			// Nodes count the parts of long lines (16 KiB each) as lines.
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

// maskContext is how many bytes before the sample are masked with it: whether the beginning of
// the sample is part of a secret may depend on them.
const maskContext = 8 << 10

// maxToken bounds the part of a token that is removed where a line is cut, in bytes: few
// tokens are longer, and a line may have no end.
const maxToken = 4 << 10

// sample returns the end of a log, without secrets and with every character visible. truncated
// reports whether it is shorter than the log, hasPanic whether a line of it is that of a panic.
func (c *Capturer) sample(data []byte, cut missing) (sample string, truncated, hasPanic bool) {
	truncated = cut.any
	tail := kube.Tail(data, c.cfg.MaxBytes+maskContext)
	if len(tail) < len(data) {
		truncated, cut.begin = true, true
	}
	if cut.begin { // the first line lacks its beginning, and the rest may be half a secret
		if i := bytes.IndexByte(tail, '\n'); i >= 0 && i < maskContext {
			tail = tail[i+1:]
		} else {
			i := bytes.IndexFunc(tail[:min(len(tail), maxToken)], isNotToken)
			if i++; i == 0 {
				i = min(len(tail), maxToken)
			}
			tail = tail[i:]
		}
	}
	if cut.end {
		from := max(0, len(tail)-maxToken)
		tail = tail[:from+1+bytes.LastIndexFunc(tail[from:], isNotToken)]
	}
	text := sanitize.Strip(c.mask.String(maskKeyEnd(string(tail))))
	// Masks may be longer than what they replace, as are the symbols of control characters.
	if len(text) > c.cfg.MaxBytes {
		text, truncated = string(kube.Tail([]byte(text), c.cfg.MaxBytes)), true
	}
	_, hasPanic = panics.Find(text)
	return text, truncated, hasPanic
}

// isNotToken reports whether a character can't be part of a token: tokens consist of letters,
// digits and some signs.
func isNotToken(r rune) bool {
	return r < 0x80 && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9') && !strings.ContainsRune("+/=_-.~%", r)
}

// maskKeyEnd masks the end of a private key whose beginning was cut off: its lines alone are
// not recognized.
func maskKeyEnd(text string) string {
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

// describeError returns the explanation of a missing log for people.
func describeError(err error) string {
	var status apierrors.APIStatus
	message := ""
	if errors.As(err, &status) {
		message = status.Status().Message
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "the watch of the cluster ended"
	case errors.Is(err, context.DeadlineExceeded):
		return "the timeout expired"
	case apierrors.IsForbidden(err):
		return "the cluster refuses access: kubewatch needs the right to get pods/log (" + message + ")"
	case apierrors.IsUnauthorized(err):
		return "the cluster does not accept kubewatch's credentials"
	case apierrors.IsNotFound(err):
		return "the pod or its node is gone (" + message + ")"
	case apierrors.IsTooManyRequests(err):
		return "the cluster is overloaded"
	case strings.Contains(message, "previous terminated container"):
		return "there is no log of the previous run (" + message + ")"
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
