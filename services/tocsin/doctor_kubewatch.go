package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// healthWait is how long processes have to report their health. They answer within a few
// milliseconds; there may be none.
const healthWait = 300 * time.Millisecond

// services checks what the services report of themselves: the state of the Kubernetes
// watchers and of the investigators, and the origins whose pages ingest refused. Other checks report services that
// do not answer.
func (d *doctor) services(ctx context.Context, c *bus.Session) []finding {
	all, err := presence.Collect(ctx, c, healthWait)
	if err != nil {
		return nil
	}
	for _, h := range all {
		if h.Ingest != nil && len(h.Ingest.RefusedOrigins) > 0 {
			d.warn("ingest", refusedPages(h.Ingest.RefusedOrigins, time.Now()),
				"if such a page is yours, add its origin to TOCSIN_ALLOWED_ORIGINS and restart tocsin; otherwise ignore this")
		}
	}
	return append(watches(all), investigators(all)...)
}

// maxNamedOrigins is how many origins the doctor names.
const maxNamedOrigins = 5

// refusedPages describes the pages of other sites whose requests ingest refused.
func refusedPages(origins []query.RefusedOrigin, now time.Time) string {
	var named []string
	for _, o := range origins[:min(len(origins), maxNamedOrigins)] {
		named = append(named, fmt.Sprintf("%s (requests: %d, the last %s ago)", sanitize.Visible(o.Origin), o.Count, max(0, now.Sub(o.Last)).Round(time.Second)))
	}
	if more := len(origins) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return "refused pages of other sites: " + strings.Join(named, ", ")
}

// watches returns a finding for each cluster, in the order in which the processes name
// them, and one for each process that is unhealthy for another reason.
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
			out = append(out, failed("kubewatch", fmt.Sprintf("%s is unhealthy: %s", process(h), sanitize.Visible(h.Reason)), "follow the reason; its log has more"))
		}
	}
	for _, name := range names {
		w, shown := clusters[name], sanitize.Visible(name)
		standby := ""
		if w.standby > 0 {
			standby = fmt.Sprintf(", on standby: %d", w.standby)
		}
		switch {
		case w.active == 0:
			out = append(out, failed("kubewatch", "no active watcher of "+shown+standby, fmt.Sprintf("wait %s until a standby takes over; if none does, check their logs", bus.KubewatchTTL)))
		case w.degraded:
			out = append(out, failed("kubewatch", fmt.Sprintf("%s can't be watched by %s: %s%s", shown, process(w.by), sanitize.Visible(w.reason), standby),
				"check that the cluster's API server is reachable, and that kubewatch may list and watch events; it keeps trying"))
		default:
			out = append(out, finding{check: "kubewatch", result: fmt.Sprintf("%s is watched by %s%s", shown, process(w.by), standby)})
		}
	}
	return out
}

func process(h query.Health) string {
	return fmt.Sprintf("pid %d on %s", h.PID, sanitize.Visible(h.Host))
}
