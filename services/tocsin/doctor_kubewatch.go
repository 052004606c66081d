package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// kubewatchWait is how long processes have to say how they are. They answer within a
// few milliseconds; none may be there.
const kubewatchWait = 300 * time.Millisecond

// kubewatches says how the watch of Kubernetes clusters is, where somebody watches
// any. That nobody answers is told elsewhere.
func kubewatches(ctx context.Context, c *bus.Conn) []finding {
	all, err := presence.Collect(ctx, c, kubewatchWait)
	if err != nil {
		return nil
	}
	return watches(all)
}

// watches is a finding for each cluster, of what its processes say, in the order in
// which they name them, and one for each that is not well for another reason.
func watches(all []query.Health) []finding {
	type watch struct {
		active, standby int
		by              query.Health
		degraded        bool
		reason          string
	}
	clusters := map[string]*watch{}
	var names []string
	var out []finding
	for _, h := range all {
		if h.Kubewatch == nil {
			continue
		}
		degraded := false
		for _, c := range h.Kubewatch.Clusters {
			w := clusters[c.Cluster]
			if w == nil {
				w = &watch{}
				clusters[c.Cluster] = w
				names = append(names, c.Cluster)
			}
			if !c.Active {
				w.standby++
				continue
			}
			w.active++
			w.by, w.degraded, w.reason = h, w.degraded || c.Degraded, c.Error
			degraded = degraded || c.Degraded
		}
		if !h.OK && !degraded {
			out = append(out, finding{"kubewatch", fmt.Sprintf("%s is not well: %s", process(h), untrusted.Visible(h.Reason)), "do what the reason says; its log says more"})
		}
	}
	for _, name := range names {
		w, shown := clusters[name], untrusted.Visible(name)
		standby := ""
		if w.standby > 0 {
			standby = fmt.Sprintf(", standing by: %d", w.standby)
		}
		switch {
		case w.active == 0:
			out = append(out, finding{"kubewatch", "nobody watches " + shown + standby, fmt.Sprintf("wait %s: one that stands by takes over; else look at its log", bus.KubewatchTTL)})
		case w.degraded:
			out = append(out, finding{
				"kubewatch", fmt.Sprintf("%s can't be watched by %s: %s%s", shown, process(w.by), untrusted.Visible(w.reason), standby),
				"is the cluster's API server there, and may the kubewatch list and watch events? it goes on trying",
			})
		default:
			out = append(out, finding{what: "kubewatch", is: fmt.Sprintf("%s is watched by %s%s", shown, process(w.by), standby)})
		}
	}
	return out
}

func process(h query.Health) string {
	return fmt.Sprintf("pid %d on %s", h.PID, untrusted.Visible(h.Host))
}
