package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
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
	// before is where it reads on; the zero value is the beginning.
	before pageCursor
	// from is the oldest time of an entry, once the call looks.
	from time.Time
}

// kinds says which events each word stands for.
var kinds = map[string]telemetry.Kind{
	"errors": telemetry.KindLog, "logs": telemetry.KindLog, "network": telemetry.KindNetwork, "vitals": telemetry.KindVitals,
	"actions": telemetry.KindAction, "security": telemetry.KindSecurity,
}

func readLook(data json.RawMessage) (l look, err error) {
	a := readArguments(data)
	l = look{
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
	before := a.text("before", maxText)
	if err := a.done(); err != nil || before == "" {
		return l, err
	}
	l.before, err = parseCursor(before, l.what)
	return l, err
}

// begin fixes how far back the list goes, on all its pages.
func (l look) begin(now time.Time) look {
	l.from = now.Add(-l.since)
	if l.before != (pageCursor{}) {
		l.from = time.UnixMilli(l.before.Since)
	}
	return l
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
	l = l.begin(time.Now())
	if l.what == whatStatus {
		return g.status(ctx, l)
	}
	p, err := g.page(ctx, l)
	if err != nil {
		return l.failure(err)
	}
	return l.block(p)
}

// page reads what was asked for.
func (g *gateway) page(ctx context.Context, l look) (page, error) {
	switch l.what {
	case whatAlerts:
		return g.history(ctx, l)
	case whatCI:
		return g.results(ctx, l)
	case whatKubernetes:
		return g.kubernetes(ctx, l)
	case whatNoise:
		return g.rules(ctx, l)
	default:
		return g.events(ctx, l)
	}
}

func (g *gateway) events(ctx context.Context, l look) (page, error) {
	reply, err := ask[query.EventsReply](ctx, g, query.SubjectEvents, query.EventsRequest{
		Kinds: []telemetry.Kind{kinds[l.what]}, App: l.app, URL: l.url, MinRank: l.minRank, Since: l.from, Limit: l.limit,
		Paged: true, Before: query.EventPosition{Seq: l.before.Seq, Index: l.before.Index},
	})
	p := page{older: reply.Older, incomplete: reply.Incomplete()}
	for _, e := range reply.Events {
		at := position{Seq: e.Position.Seq, Index: e.Position.Index}
		e.Position = query.EventPosition{}
		g.mask.Event(&e.Event)
		p.entries = append(p.entries, entry{e, at})
	}
	return p, err
}

// rules lists the noise rules: those added by hand, then by app and pattern.
func (g *gateway) rules(ctx context.Context, l look) (page, error) {
	reply, err := ask[query.NoiseReply](ctx, g, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList, App: l.app})
	p := page{incomplete: reply.Incomplete(), hidden: reply.HiddenTotal}
	if reply.Truncated {
		p.incomplete = strings.TrimPrefix(p.incomplete+"; the detector has more rules than it can list: name an app", "; ")
	}
	var all []entry
	for _, r := range reply.Rules {
		all = append(all, entry{r, position{Name: ruleKey(r)}})
	}
	return l.named(p, all), err
}

const (
	// stateManual is that of rules that were added by hand.
	stateManual = "manual"
	// maxRuleKey is how much of a pattern is in a cursor, in bytes.
	maxRuleKey = 100
)

// ruleKey sorts rules: those added by hand first, then by app, pattern and id.
func ruleKey(r query.NoiseRule) string {
	state := "1"
	if r.State == stateManual {
		state = "0"
	}
	return strings.Join([]string{state, r.App, r.Pattern[:min(len(r.Pattern), maxRuleKey)], r.ID}, "\x00")
}

// named makes a page of entries that have names, in the order of these.
func (l look) named(p page, all []entry) page {
	slices.SortStableFunc(all, func(a, b entry) int { return strings.Compare(a.at.Name, b.at.Name) })
	all = slices.DeleteFunc(all, func(e entry) bool { return e.at.Name <= l.before.Name && l.before.Name != "" })
	n := min(len(all), l.limit)
	p.entries, p.older = all[:n], len(all)-n
	return p
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
	// Intake reports whether the intake accepts events now, and why not; null where that is
	// not known.
	Intake   *intakeHealth         `json:"intake"`
	Detector *query.DetectorStatus `json:"detector"`
	// Kubernetes has the clusters that are watched, where any is.
	Kubernetes []clusterStatus `json:"kubernetes,omitempty"`
	// RefusedOrigins are pages of other sites that an intake refused within the last hour, where
	// there are any.
	RefusedOrigins *refusedOrigins `json:"refused_origins,omitempty"`
	Client         string          `json:"client"`
	// Truncated counts the apps that are left out.
	Truncated *truncated `json:"truncated,omitempty"`
}

// appStatus is what the detector knows of an app, and what pends about it.
type appStatus struct {
	query.AppStatus
	AlertsPending int `json:"alerts_pending"`
}

type busHealth struct {
	Connected bool `json:"connected"`
}

func (g *gateway) status(ctx context.Context, l look) (string, error) {
	s := statusReply{What: whatStatus, Apps: []appStatus{}, Client: sanitize.Visible(g.link.client())}
	s.Bus.Connected = g.connected() == nil
	asked := g.askIntakes(ctx)
	s.Kubernetes = g.clusterStates(ctx)
	detector, err := ask[query.StatusReply](ctx, g, query.SubjectStatus, struct{}{})
	if err != nil {
		s.Error = sanitize.Visible(err.Error())
	} else {
		s.Detector, s.Error = &detector.Detector, detector.Detector.Incomplete()
		for _, app := range detector.Apps {
			app.LastEventSeconds = math.Round(app.LastEventSeconds*1000) / 1000
			for i := range app.Senders {
				app.Senders[i] = sanitize.Visible(g.mask.String(app.Senders[i]))
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
	return l.statusBlock(s)
}

// What stands before the names of apps in the order of a status.
const (
	statusKnown    = "0 "
	statusNewcomer = "1 "
)

// statusBlock writes a status with as many of its apps as were asked for and have
// room: those with history first, so that newcomers crowd none of them out, then by name.
func (l look) statusBlock(s statusReply) (string, error) {
	var all []entry
	for _, app := range s.Apps {
		if l.app != "" && l.app != app.App {
			continue
		}
		at := position{Name: statusNewcomer + app.App}
		if app.History {
			at.Name = statusKnown + app.App
		}
		app.App = sanitize.Visible(app.App)
		all = append(all, entry{app, at})
	}
	p := l.named(page{}, all)
	s.Apps, s.Truncated = []appStatus{}, &truncated{maxLeftOut, strings.Repeat("x", maxText)}
	around, err := truncate.Encode([]statusReply{s})
	if err != nil {
		return "", err
	}
	// What is known beside the apps may take half of the block.
	const most = maxFirstBlock / 2
	room := maxFirstBlock - min(len(around[0]), most)
	list, cut, err := l.fits(p, room)
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

// streamReply is the answer to streaming's status.
type streamReply struct {
	Config      notifier.Config `json:"config"`
	NotifyCount int             `json:"notify_count"`
	Pending     int             `json:"pending"`
	Suppressed  int             `json:"suppressed"`
	Dropped     int             `json:"dropped"`
	told
}
