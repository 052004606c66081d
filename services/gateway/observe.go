package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/stream"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

const (
	// maxText is the longest text argument, in bytes.
	maxText = 2048
	// maxSince is how far back observe looks: as far as alerts are kept.
	maxSince     = 7 * 24 * 60 * 60
	defaultSince = 600
	maxWait      = 50
)

// What can be observed.
const (
	whatAlerts     = "alerts"
	whatCI         = "ci"
	whatKubernetes = "kubernetes"
	whatNoise      = "noise"
	whatStatus     = "status"
)

// look is what an observe call wants to see.
type look struct {
	what, app, url string
	minRank        int
	since          time.Duration
	limit          int
	wait           time.Duration
}

// kinds says which events each word stands for.
var kinds = map[string]telemetry.Kind{
	"errors": telemetry.KindLog, "logs": telemetry.KindLog, "network": telemetry.KindNetwork, "vitals": telemetry.KindVitals,
	"actions": telemetry.KindAction, "security": telemetry.KindSecurity,
}

func readLook(data json.RawMessage) (look, error) {
	a := readArguments(data)
	l := look{
		what: a.word("what", whatStatus, "alerts", "errors", "logs", "network", "vitals", "actions", "ci", "kubernetes", "noise", "security", "status"),
		app:  a.text("app", maxText), url: a.text("url", maxText),
		minRank: alert.Severity(a.optional("severity_min", "info", "warning", "error")).Rank(),
		since:   time.Duration(a.whole("since_seconds", defaultSince, 1, maxSince)) * time.Second,
		limit:   a.whole("limit", query.DefaultLimit, 1, query.MaxLimit),
		wait:    time.Duration(a.whole("wait_seconds", 0, 0, maxWait)) * time.Second,
	}
	if l.what == "errors" {
		l.minRank = alert.Error.Rank()
	}
	return l, a.done()
}

// observe answers with what was asked for, and hands the pending alerts over.
// An error that the bus or the detector has stands in the first block: alerts
// that are here already are told all the same.
func (g *gateway) observe(ctx context.Context, c call) (answer, error) {
	l, err := readLook(c.arguments)
	if err != nil {
		return nil, err
	}
	g.settle(ctx)
	g.forgetTold(ctx)
	for until := time.Now().Add(l.wait); ; {
		held, err := g.hold(ctx, until, l.wait, c.progress)
		if err != nil {
			return nil, err
		}
		blocks, err := g.look(ctx, l, c.gone)
		// Another call, or another reader of the client, may have been faster.
		if err != nil || len(blocks) > 1 || held != alertPends || !time.Now().Before(until) {
			return blocks, err
		}
	}
}

// look makes the first block, and hands the pending alerts over.
func (g *gateway) look(ctx context.Context, l look, gone func() bool) (answer, error) {
	looking, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	first, err := g.see(looking, l)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // cancelled: nobody would read the alerts
	}
	if gone() {
		return nil, errors.New("the client has closed the connection")
	}
	block, err := g.drain(ctx)
	if err != nil || block == "" {
		return answer{first}, err
	}
	return answer{first, block}, nil
}

// progressEvery is how often a held call tells that it is still held.
const progressEvery = 2 * time.Second

// hold returns once an alert is pending, the time is up, the call has ended or
// the gateway is about to, and says why. tell hears how much of the whole is over.
func (g *gateway) hold(ctx context.Context, until time.Time, whole time.Duration, tell progress) (waited, error) {
	for {
		turn := time.Until(until)
		if tell != nil {
			turn = min(turn, progressEvery)
		}
		why, err := g.session.wait(g.life, ctx, g.closing, 0, turn)
		rest := time.Until(until)
		switch {
		case err != nil || why == callEnded || why == timeUp && rest <= 0:
			return why, err
		case why == timeUp:
			tell((whole - rest).Round(progressEvery/4), whole)
		case g.forgetTold(ctx) > 0:
			return alertPends, nil
		}
	}
}

// see makes the first block.
func (g *gateway) see(ctx context.Context, l look) (string, error) {
	switch l.what {
	case whatStatus:
		return g.status(ctx)
	case whatAlerts:
		return g.list(l.what, func() (any, lack, error) { return g.history(ctx, l) })
	case whatCI:
		return g.list(l.what, func() (any, lack, error) { return g.results(ctx, l) })
	case whatKubernetes:
		return g.list(l.what, func() (any, lack, error) { return g.kubernetes(ctx, l) })
	case whatNoise:
		return g.list(l.what, func() (any, lack, error) {
			reply, err := ask[query.NoiseReply](ctx, g, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList, App: l.app})
			return reply.Rules, lack{truncated: reply.Truncated, incomplete: reply.Incomplete(), hidden: reply.HiddenTotal}, err
		})
	default:
		return g.list(l.what, func() (any, lack, error) { return g.events(ctx, l) })
	}
}

// list is a first block with a list in it, or with the reason why there is none.
func (g *gateway) list(what string, get func() (list any, lacks lack, err error)) (string, error) {
	list, lacks, err := get()
	if err != nil {
		return encode(struct {
			What  string `json:"what"`
			Error string `json:"error"`
		}{what, untrusted.Visible(err.Error())})
	}
	items, err := encode(list)
	if err != nil {
		return "", err
	}
	name, err := encode(what)
	if err != nil {
		return "", err
	}
	end := ""
	if lacks.hidden > 0 {
		end = fmt.Sprintf(`,"hidden_total":%d`, lacks.hidden)
	}
	if lacks.truncated {
		end += `,"truncated":true`
	}
	if lacks.incomplete != "" {
		why, err := encode(lacks.incomplete)
		if err != nil {
			return "", err
		}
		end += `,"incomplete":` + why
	}
	return `{"what":` + name + `,` + name + `:` + items + end + `}`, nil
}

// lack is what a list does not hold: more than fits, what nobody answered for, and how
// many events the rules of what is noise have hidden.
type lack struct {
	truncated  bool
	incomplete string
	hidden     uint64
}

func (g *gateway) events(ctx context.Context, l look) (list any, lacks lack, err error) {
	reply, err := ask[query.EventsReply](ctx, g, query.SubjectEvents, query.EventsRequest{
		Kinds: []telemetry.Kind{kinds[l.what]}, App: l.app, URL: l.url, MinRank: l.minRank,
		Since: time.Now().Add(-l.since), Limit: l.limit,
	})
	for i := range reply.Events {
		g.mask.Event(&reply.Events[i].Event)
	}
	return reply.Events, lack{truncated: reply.Truncated, incomplete: reply.Incomplete()}, err
}

// statusReply tells data from silence.
type statusReply struct {
	What string `json:"what"`
	// Error says why a part is missing.
	Error         string      `json:"error,omitempty"`
	Apps          []appStatus `json:"apps"`
	AlertsPending int         `json:"alerts_pending"`
	Streaming     bool        `json:"streaming"`
	Bus           busHealth   `json:"bus"`
	// Intake says whether what is sent now is taken in, and why not; null where that is
	// not known.
	Intake   *intakeHealth         `json:"intake"`
	Detector *query.DetectorStatus `json:"detector"`
	// Kubernetes has the clusters that are watched, where any is.
	Kubernetes []clusterStatus `json:"kubernetes,omitempty"`
	// RefusedOrigins are pages of other sites that an intake refused within the last hour, where
	// there are any.
	RefusedOrigins *refusedOrigins `json:"refused_origins,omitempty"`
	Client         string          `json:"client"`
}

// appStatus is what the detector knows of an app, and what pends about it.
type appStatus struct {
	query.AppStatus
	AlertsPending int `json:"alerts_pending"`
}

type busHealth struct {
	Connected bool `json:"connected"`
}

func (g *gateway) status(ctx context.Context) (string, error) {
	s := statusReply{What: whatStatus, Apps: []appStatus{}, Client: untrusted.Visible(g.link.client())}
	s.Bus.Connected = g.connected() == nil
	asked := g.askIntakes(ctx)
	s.Kubernetes = g.clusterStates(ctx)
	detector, err := ask[query.StatusReply](ctx, g, query.SubjectStatus, struct{}{})
	if err != nil {
		s.Error = untrusted.Visible(err.Error())
	} else {
		s.Detector, s.Error = &detector.Detector, detector.Detector.Incomplete()
		for _, app := range detector.Apps {
			app.LastEventSeconds = math.Round(app.LastEventSeconds*1000) / 1000
			for i := range app.Senders {
				app.Senders[i] = untrusted.Visible(g.mask.String(app.Senders[i]))
			}
			s.Apps = append(s.Apps, appStatus{AppStatus: app})
		}
	}
	intakes := <-asked
	s.Intake, s.RefusedOrigins = intakes.health, intakes.refused
	err = g.session.do(g.life, func(own *session, _ time.Time) {
		s.AlertsPending, s.Streaming = own.inbox.Len(), own.stream.Config().Enabled
		for _, a := range own.inbox.Pending() {
			if i := slices.IndexFunc(s.Apps, func(app appStatus) bool { return app.App == a.App }); i >= 0 {
				s.Apps[i].AlertsPending++
			}
		}
	})
	if err != nil {
		return "", err
	}
	for i := range s.Apps {
		s.Apps[i].App = untrusted.Visible(s.Apps[i].App)
	}
	return encode(s)
}

// streamReply is the answer to streaming's status.
type streamReply struct {
	Config      stream.Config `json:"config"`
	NotifyCount int           `json:"notify_count"`
	Pending     int           `json:"pending"`
	Suppressed  int           `json:"suppressed"`
	Dropped     int           `json:"dropped"`
	told
}
