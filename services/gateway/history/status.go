package history

import (
	"context"
	"math"
	"strings"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Client is the part of a status about the client itself.
type Client struct {
	Name string
	// Pending are the alerts in its inbox.
	Pending []alert.Alert
	// Streaming reports whether its notifications are enabled.
	Streaming bool
}

// BusHealth reports whether the bus is reachable.
type BusHealth struct {
	Connected bool `json:"connected"`
}

// statusReply is the answer for the status. It distinguishes an app that is fine from one
// that sends nothing.
type statusReply struct {
	What What `json:"what"`
	// Error is why a part is missing.
	Error         string      `json:"error,omitempty"`
	Apps          []appStatus `json:"apps"`
	AlertsPending int         `json:"alerts_pending"`
	Streaming     bool        `json:"streaming"`
	Bus           BusHealth   `json:"bus"`
	// Ingest is null where ingest's health is unknown.
	Ingest   *IngestHealth         `json:"intake"`
	Detector *query.DetectorStatus `json:"detector"`
	// Kubernetes has the watched clusters.
	Kubernetes []ClusterStatus `json:"kubernetes,omitempty"`
	// RefusedOrigins are pages of other sites that ingest refused within the last hour.
	RefusedOrigins *RefusedOrigins `json:"refused_origins,omitempty"`
	Client         string          `json:"client"`
	// Truncated counts the apps that are left out.
	Truncated *truncated `json:"truncated,omitempty"`
}

// appStatus is the detector's status of an app, and how many of its alerts are pending.
type appStatus struct {
	query.AppStatus
	AlertsPending int `json:"alerts_pending"`
}

// Status reads the state of all parts and returns it as the first block of an answer.
// client is called once the rest has been read.
func (r *Reader) Status(ctx context.Context, q Query, client func() (Client, error)) (string, error) {
	s := statusReply{What: Status, Apps: []appStatus{}}
	s.Bus.Connected = r.bus.Connected() == nil
	answer := r.Ingest(ctx)
	s.Kubernetes = r.clusterStates(ctx)
	detector, err := busclient.Ask[query.StatusReply](ctx, r.bus, query.SubjectStatus, struct{}{})
	if err != nil {
		s.Error = sanitize.Visible(err.Error())
	} else {
		s.Detector, s.Error = &detector.Detector, detector.Detector.Incomplete()
		for _, app := range detector.Apps {
			app.LastEventSeconds = math.Round(app.LastEventSeconds*1000) / 1000
			for i := range app.Senders {
				app.Senders[i] = sanitize.Visible(r.mask.String(app.Senders[i]))
			}
			s.Apps = append(s.Apps, appStatus{AppStatus: app})
		}
	}
	ingest := <-answer
	s.Ingest, s.RefusedOrigins = ingest.Health, ingest.Refused
	c, err := client()
	if err != nil {
		return "", err
	}
	s.Client, s.AlertsPending, s.Streaming = sanitize.Visible(c.Name), len(c.Pending), c.Streaming
	pending := map[string]int{}
	for _, a := range c.Pending {
		pending[a.App]++
	}
	for i := range s.Apps {
		s.Apps[i].AlertsPending = pending[s.Apps[i].App]
	}
	return q.statusBlock(s)
}

// Prefixes of app names that order a status: apps with history come first, so that new ones
// never displace them.
const (
	orderKnown = "0 "
	orderNew   = "1 "
)

// statusBlock encodes a status with as many of its apps as match and fit: those with
// history first, then by name.
func (q Query) statusBlock(s statusReply) (string, error) {
	var all []entry
	for _, app := range s.Apps {
		if q.App != "" && q.App != app.App {
			continue
		}
		position := entryPosition{Name: orderNew + app.App}
		if app.History {
			position.Name = orderKnown + app.App
		}
		app.App = sanitize.Visible(app.App)
		all = append(all, entry{app, position})
	}
	p := q.pageByName(page{}, all)
	s.Apps, s.Truncated = []appStatus{}, longestTruncated()
	around, err := truncate.Encode([]statusReply{s})
	if err != nil {
		return "", err
	}
	// Everything but the apps may take half of the block.
	const most = MaxBlock / 2
	room := MaxBlock - min(len(around[0]), most)
	list, cut, err := q.list(p, room)
	if err != nil {
		return "", err
	}
	s.Truncated = cut
	if around, err = truncate.Encode([]statusReply{s}); err != nil {
		return "", err
	}
	text := string(truncate.Object(around[0], most))
	return strings.Replace(text, `"apps":[]`, `"apps":`+string(list), 1), nil
}

// DetectorStatus asks the detector for its status.
func (r *Reader) DetectorStatus(ctx context.Context) (query.StatusReply, error) {
	return busclient.Ask[query.StatusReply](ctx, r.bus, query.SubjectStatus, struct{}{})
}
