package recent

import (
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Bounds of [Clusters]. Beyond them the oldest messages are forgotten.
const (
	MaxClusterMessages = 4000
	// MaxClusterBytes bounds the messages as they are stored on the bus.
	MaxClusterBytes = 24 << 20
)

// ClusterMessage is a message of a cluster and when it arrived on the bus.
type ClusterMessage struct {
	kube.Message
	Received time.Time

	size int
}

// Severity returns the severity of the message: a fault's own, also at its end; warning for a
// warning event and a degraded watch; info otherwise.
func (m *ClusterMessage) Severity() alert.Severity {
	switch {
	case m.Fault != nil && m.Fault.Severity.Rank() > 0:
		return m.Fault.Severity
	case m.Fault != nil, m.Event != nil && m.Event.Type == kube.TypeWarning, m.Watch != nil && m.Watch.Degraded:
		return alert.Warning
	default:
		return alert.Info
	}
}

// Clusters remembers messages of clusters. The zero value is empty.
type Clusters struct {
	messages []*ClusterMessage // oldest first
	bytes    int
	dropped  bool
}

// Add adds the next message of the stream, of a size in bytes.
func (c *Clusters) Add(m kube.Message, received time.Time, size int) {
	c.messages = append(c.messages, &ClusterMessage{Message: m, Received: received, size: size})
	c.bytes += size
	n := 0
	for ; len(c.messages)-n > 1 && (len(c.messages)-n > MaxClusterMessages || c.bytes > MaxClusterBytes); n++ {
		c.bytes -= c.messages[n].size
		c.messages[n] = nil
	}
	if n > 0 {
		c.messages, c.dropped = c.messages[n:], true
	}
}

// Dropped reports whether messages were forgotten for a bound.
func (c *Clusters) Dropped() bool { return c.dropped }

// ClusterQuery selects messages. An empty field matches all.
type ClusterQuery struct {
	// App is the app of the object, see [kube.App].
	App, Cluster, Namespace string
	// Workload is the name of a workload or an object, with or without its kind, such as
	// Deployment/web. It matches the pods of the workload.
	Workload string
	MinRank  int
	Since    time.Time
	// Logs selects messages with logs alone.
	Logs bool
}

func (q ClusterQuery) matches(m *ClusterMessage) bool {
	if m.Received.Before(q.Since) || m.Severity().Rank() < q.MinRank || q.Logs && len(m.Logs) == 0 {
		return false
	}
	if q.Cluster != "" && m.Cluster != q.Cluster {
		return false
	}
	if m.Event == nil { // the watch of a cluster, which concerns all of its objects
		return m.Watch != nil
	}
	o := m.Event.InvolvedObject
	return (q.Namespace == "" || o.Namespace == q.Namespace) && (q.App == "" || m.App() == q.App) && (q.Workload == "" || q.isWorkload(m))
}

// isWorkload reports whether a message is about the workload, or about a pod of it.
func (q ClusterQuery) isWorkload(m *ClusterMessage) bool {
	kind, name, named := strings.Cut(q.Workload, "/")
	if !named {
		kind, name = "", q.Workload
	}
	o := m.Event.InvolvedObject
	if m.Fault != nil {
		if k, n, _ := kube.SplitWorkload(m.Fault.Workload); n == name && (kind == "" || strings.EqualFold(kind, k)) {
			return true
		}
	}
	switch {
	case o.Name == name:
		return kind == "" || strings.EqualFold(kind, o.Kind)
	case o.Kind == "Pod", o.Kind == "ReplicaSet":
		return strings.HasPrefix(o.Name, name+"-")
	default:
		return false
	}
}

// Find returns the messages of a query, newest first, at most limit, and how many more there are.
// Of the messages about one state of a fault the newest is returned: the one with its logs.
func (c *Clusters) Find(q ClusterQuery, limit int) (found []ClusterMessage, more int) {
	faults := map[[2]string]bool{}
	for i := len(c.messages) - 1; i >= 0; i-- {
		m := c.messages[i]
		if !q.matches(m) {
			continue
		}
		if m.Fault != nil && m.Fault.ID != "" {
			fault := [2]string{m.Fault.ID, m.Fault.State}
			if faults[fault] {
				continue
			}
			faults[fault] = true
		}
		if len(found) < limit {
			found = append(found, *m)
		} else {
			more++
		}
	}
	return found, more
}
