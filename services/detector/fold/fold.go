// Package fold is the detector without its transports: a fold over the log of
// telemetry, CI results, alerts of others and noise commands that gives alerts.
//
// It holds the state of every app, asks each rule about each event, hides what
// is noise, bounds storms, and gives alerts their ids. The rules go by the
// bus's stamp of arrival in whole milliseconds, and nothing here has a clock,
// draws lots or depends on an order that is not the log's: the same messages
// give the same alerts, with the same ids, also when the state was written down
// and read back in between (Snapshot, Restore). The one exception are processors of
// two kinds, whose arithmetic differs in a number's last digit: a figure told may,
// too, and a spike whose likelihood is that near to the limit may be found with the
// next error on one of them, under another id.
//
// A Fold is not safe for concurrent use. It changes no message it is given.
package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ciresult"
	others "github.com/tocsin-bus/tocsin/services/detector/external"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// DefaultApps is the default of Config.MaxApps.
	DefaultApps = 1000
	// DefaultBytes is the default of Config.MaxBytes.
	DefaultBytes = 128 << 20

	// maxSkew is how far stamps may run backwards, as they do when a cluster's
	// leader changes, and count as the newest one. Further back a clock was set
	// back: what is counted over time starts again.
	maxSkew = time.Minute
)

// Config bounds a Fold. Whoever writes the events chooses the names of the apps
// and how much there is to remember of each. Past MaxApps a newcomer takes the place of
// an app that was silent for 24 h, or of the newest app without history; an app has
// history once it has raised an alert or its events span over 10 min. Where all have
// history the newcomer is not tracked. Past MaxBytes the same apps are forgotten first,
// then the one that was silent for the longest. A forgotten app starts from nothing.
type Config struct {
	// Partition names the part of the log that is folded in, empty for all of it.
	// A message that several parts hold raises alerts of its own in each of them.
	Partition string
	// MaxApps is how many apps are known; 0 means DefaultApps.
	MaxApps int
	// MaxBytes is about how much memory the apps take, of which one alone takes
	// 19 MB at most; 0 means DefaultBytes. Snapshots take as much again.
	MaxBytes int
	// Rules says by which rules each app is judged. What a snapshot was made by does
	// not matter: from a Restore on these hold.
	Rules ruleset.Table
}

// Message is one message of the log. One of Events, CI, External and
// Noise is set, or none for a message that could not be read.
type Message struct {
	// Seq is the message's sequence in its stream and Time the bus's stamp of
	// its arrival.
	Seq  uint64
	Time time.Time

	// Events are valid events.
	Events []telemetry.Event
	// CI is a valid result.
	CI *ci.Result
	// External are valid alerts of other monitoring systems.
	External []external.Alert
	// Noise is a command to the noise rules.
	Noise *query.NoiseRequest
}

// Outcome is what a message led to.
type Outcome struct {
	Alerts []alert.Alert
	// Forgotten are the apps that are no longer tracked.
	Forgotten []string
	// Noise is what became of a noise command, nil for other messages.
	Noise *noise.Report
}

// Fold is the state of the detector.
type Fold struct {
	cfg  Config
	apps *lru.Map[string, *app]
	// newcomers are the apps that never had history, in the order in which they came, and
	// came is how many apps came so far.
	newcomers *lru.Map[string, *app]
	came      uint64
	strangers strangers
	bytes     int // of all apps
	manual    *noise.Manual
	ci        *ciresult.Results
	others    *others.Alerts
	storm     *ratelimit.Limiter
	budget    *ratelimit.Budget
	incidents incidents
	newest    time.Time
	// forgotten is for Outcome.Forgotten.
	forgotten []string

	count counters
	event rule.Event // the current one
	// Buffers that are used again: a template, a key, an app's state.
	template, key []byte
	buffer        []byte
	// written is how long the last snapshot was, in bytes.
	written int
}

// New returns a detector that has seen nothing.
func New(cfg Config) *Fold {
	if cfg.MaxApps == 0 {
		cfg.MaxApps = DefaultApps
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultBytes
	}
	return &Fold{
		cfg: cfg, apps: lru.New[string, *app](cfg.MaxApps), newcomers: lru.New[string, *app](cfg.MaxApps), strangers: newStrangers(),
		manual: &noise.Manual{}, ci: ciresult.New(), others: others.New(), storm: ratelimit.New(), budget: ratelimit.NewBudget(), incidents: newIncidents(),
	}
}

// Apply folds in the next message of the log.
func (f *Fold) Apply(m Message) (out Outcome) {
	t := turn{fold: f, seq: m.Seq, stamp: m.Time, now: f.clock(m.Time)}
	t.tick()
	switch {
	case m.CI != nil:
		t.result(m.CI)
	case m.External != nil:
		t.external(m.External)
	case m.Noise != nil:
		report := t.command(m.Noise)
		out.Noise = &report
	default:
		t.events(m.Events)
	}
	out.Alerts, out.Forgotten, f.forgotten = t.alerts, f.forgotten, nil
	return out
}

// clock makes of a stamp the time that the rules go by.
func (f *Fold) clock(stamp time.Time) time.Time {
	t := time.UnixMilli(stamp.UnixMilli()).UTC()
	if skew := f.newest.Sub(t); skew > 0 && skew <= maxSkew {
		return f.newest
	}
	f.newest = t
	return t
}

// app finds or begins an app. Where there is no room it is one that is not tracked.
func (f *Fold) app(name string) *app {
	if known := f.apps.Get(name); known != nil {
		return *known
	}
	if f.apps.Len() == f.apps.Cap() {
		out := f.givesWay(nil)
		if out == nil {
			f.strangers.add(name, f.newest)
			return &app{name: name, untracked: true}
		}
		f.apps.Delete(out.name)
		f.forget(out)
	}
	f.strangers.tracked(name)
	a := f.newApp(name, f.newest)
	f.came++
	a.age.number = f.came
	f.addApp(a)
	f.newcomers.Add(name, a)
	return a
}

// givesWay is the app that a newcomer takes the place of: one that was silent for 24 h,
// or the newest without history. It is nil where all have history, but for the one to be
// spared.
func (f *Fold) givesWay(spared *app) *app {
	if oldest := f.apps.Oldest(); oldest != nil && oldest.Value.age.silent(f.newest) {
		return oldest.Value
	}
	for _, newest := range f.newcomers.Backward() {
		if *newest != spared {
			return *newest
		}
	}
	return nil
}

// seen notes that an event of an app came.
func (f *Fold) seen(a *app) {
	grown := a.age.seen(f.newest)
	if a.age.known() {
		f.newcomers.Delete(a.name)
	}
	if grown {
		a.switchRules(f.newest)
	}
}

// raised notes that an app has raised an alert.
func (f *Fold) raised(a *app) {
	if a.untracked || a.age.raised {
		return
	}
	a.age.raised, a.encoded = true, nil
	f.newcomers.Delete(a.name)
}

// Tracks reports whether an app is remembered.
func (f *Fold) Tracks(app string) bool { return f.apps.Peek(appName(app)) != nil }

// HasHistory reports whether an app is tracked and does not give way to newcomers: it
// has raised an alert, or its events span more than 10 min.
func (f *Fold) HasHistory(app string) bool {
	known := f.apps.Peek(appName(app))
	return known != nil && (*known).age.known()
}

// NotTracked is how many apps had an event within the last 24 h and are not tracked, at
// most 10,000.
func (f *Fold) NotTracked() int { return f.strangers.count(f.newest) }

func (f *Fold) addApp(a *app) {
	_, gone := f.apps.Add(a.name, a)
	a.size = a.measure()
	f.bytes += a.size
	if gone != nil {
		f.forget(gone.Value)
	}
}

// changed is called when an app, if there is one, has taken its events of a
// message.
func (f *Fold) changed(a *app) {
	if a == nil || a.untracked {
		return
	}
	a.encoded = nil
	size := a.measure()
	f.bytes += size - a.size
	a.size = size
}

// shrink makes room by forgetting apps, but not the one used last.
func (f *Fold) shrink() {
	for f.bytes > f.cfg.MaxBytes && f.apps.Len() > 1 {
		var used *app
		for _, last := range f.apps.Backward() {
			used = *last
			break
		}
		out := f.givesWay(used)
		if out == nil {
			out = f.apps.Oldest().Value
		}
		f.apps.Delete(out.name)
		f.forget(out)
	}
}

// forget counts an app out that is no longer in apps.
func (f *Fold) forget(a *app) {
	f.bytes -= a.size
	f.newcomers.Delete(a.name)
	if !a.age.silent(f.newest) {
		f.strangers.add(a.name, f.newest)
	}
	f.incidents.forget(a)
	f.count.apps++
	f.count.gone.count(a)
	f.forgotten = append(f.forgotten, a.name)
}
