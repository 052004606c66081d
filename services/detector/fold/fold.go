// Package fold is the detector without its transports. It applies the messages of a log
// (telemetry, CI results, alerts of other systems, noise commands) to its state, one by
// one, and returns the alerts that they raise.
//
// A [Fold] keeps the state of every app. It drops events that noise rules hide, gives the
// others to the detection rules (table.go), bounds storms of alerts, and gives alerts their
// ids.
//
// Time is the bus's stamp of arrival in whole milliseconds. There is no clock and nothing
// random: the same messages give the same alerts with the same ids, also after
// [Fold.Snapshot] and [Fold.Restore]. This holds on one processor architecture only, because
// the rounding of floating point numbers can move a borderline spike to the next error.
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

	// maxSkew is how far a stamp may be before the newest one, as happens when a cluster's
	// leader changes. Such a stamp counts as the newest one. A stamp further back means that
	// a clock was set back, and counting over time starts again.
	maxSkew = time.Minute
)

// Config configures a Fold and bounds its memory, because senders choose the names of apps
// and how much there is to remember of each.
//
// Past MaxApps a new app replaces one without events for 24 h, or else the newest app without
// history. An app has history once it has raised an alert or its events span over 10 min. If
// all apps have history, the new one is not tracked. Past MaxBytes the same apps are
// forgotten first, then the one with the oldest last event. A forgotten app starts without
// state.
type Config struct {
	// Partition names the part of the log that is applied, empty for all of it. It is part
	// of the ids of alerts, so a message in several parts raises different alerts.
	Partition string
	// MaxApps is how many apps are tracked; 0 means DefaultApps.
	MaxApps int
	// MaxBytes is about how much memory all apps take; 0 means DefaultBytes. One app takes
	// 19 MB at most. Snapshots take as much again.
	MaxBytes int
	// Rules chooses the detection rules of each app, also after a Restore of a snapshot that
	// was made with others.
	Rules ruleset.Table
}

// Message is one message of the log, which Apply does not change. One of Events, CI, External
// and Noise is set, or none for a message that could not be decoded or only lets time pass.
type Message struct {
	// Seq is the message's sequence in its stream, and Time the bus's stamp of its arrival.
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

// Outcome is the result of a message.
type Outcome struct {
	Alerts []alert.Alert
	// Forgotten are the apps that are no longer tracked.
	Forgotten []string
	// Noise is the result of a noise command, and nil for other messages.
	Noise *noise.Report
}

// Fold is the state of the detector. It is not safe for concurrent use.
type Fold struct {
	cfg  Config
	apps *lru.Map[string, *app]
	// newcomers are the apps without history, in the order of their first events.
	newcomers *lru.Map[string, *app]
	created   uint64 // apps so far
	untracked untrackedApps
	bytes     int // of all apps
	manual    *noise.Manual
	ci        *ciresult.Results
	external  *others.Alerts
	storm     *ratelimit.Limiter
	budget    *ratelimit.Budget
	incidents incidents
	newest    time.Time
	// forgotten collects Outcome.Forgotten.
	forgotten []string

	count counters
	// event, template, key and buffer are reused: the current event as rules see it, its
	// template, the dedup key of the current alert, and an app in a snapshot.
	event         rule.Event
	template, key []byte
	buffer        []byte
	// stateless has the rules that serve all untracked apps, by their index in the table.
	stateless []rule.Rule
	// snapshotSize is the length of the last snapshot, in bytes.
	snapshotSize int
}

// New returns a detector without state.
func New(cfg Config) *Fold {
	if cfg.MaxApps == 0 {
		cfg.MaxApps = DefaultApps
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultBytes
	}
	return &Fold{
		cfg: cfg, apps: lru.New[string, *app](cfg.MaxApps), newcomers: lru.New[string, *app](cfg.MaxApps), untracked: newUntrackedApps(),
		manual: &noise.Manual{}, ci: ciresult.New(), external: others.New(), storm: ratelimit.New(), budget: ratelimit.NewBudget(), incidents: newIncidents(),
		stateless: make([]rule.Rule, len(table)),
	}
}

// Apply applies the next message of the log.
func (f *Fold) Apply(m Message) (out Outcome) {
	t := turn{fold: f, seq: m.Seq, stamp: m.Time, now: f.clock(m.Time)}
	t.tick()
	switch {
	case m.CI != nil:
		t.applyCIResult(m.CI)
	case m.External != nil:
		t.applyExternal(m.External)
	case m.Noise != nil:
		report := t.applyNoiseCommand(m.Noise)
		out.Noise = &report
	default:
		t.applyEvents(m.Events)
	}
	out.Alerts, out.Forgotten, f.forgotten = t.alerts, f.forgotten, nil
	return out
}

// clock returns the time of a stamp for the rules.
func (f *Fold) clock(stamp time.Time) time.Time {
	t := time.UnixMilli(stamp.UnixMilli()).UTC()
	if skew := f.newest.Sub(t); skew > 0 && skew <= maxSkew {
		return f.newest
	}
	f.newest = t
	return t
}

// app finds or adds an app. If there is no room, the app that it returns is not tracked.
func (f *Fold) app(name string) *app {
	if found := f.apps.Get(name); found != nil {
		return *found
	}
	if f.apps.Len() == f.apps.Cap() {
		evicted := f.evictionCandidate(nil)
		if evicted == nil {
			f.untracked.add(name, f.newest)
			return &app{name: name, untracked: true}
		}
		f.apps.Delete(evicted.name)
		f.forget(evicted)
	}
	f.untracked.remove(name)
	a := f.newApp(name, f.newest)
	f.created++
	a.age.number = f.created
	f.addApp(a)
	f.newcomers.Add(name, a)
	return a
}

// evictionCandidate returns the app that a new one replaces: one without events for 24 h, or
// the newest one without history. It is nil if all apps except spared have history.
func (f *Fold) evictionCandidate(spared *app) *app {
	if oldest := f.apps.Oldest(); oldest != nil && oldest.Value.age.isExpired(f.newest) {
		return oldest.Value
	}
	for _, newest := range f.newcomers.Backward() {
		if *newest != spared {
			return *newest
		}
	}
	return nil
}

// recordEvent records that an app has had an event.
func (f *Fold) recordEvent(a *app) {
	grown := a.age.addEvent(f.newest)
	if a.age.hasHistory() {
		f.newcomers.Delete(a.name)
	}
	if grown {
		a.switchRules(f.newest)
	}
}

// recordAlert records that an app has raised an alert.
func (f *Fold) recordAlert(a *app) {
	if a.untracked || a.age.hasRaised {
		return
	}
	a.age.hasRaised, a.encoded = true, nil
	f.newcomers.Delete(a.name)
}

// Tracks reports whether an app is tracked.
func (f *Fold) Tracks(app string) bool { return f.apps.Peek(appName(app)) != nil }

// HasHistory reports whether an app is tracked and has raised an alert or events that span
// more than 10 min. New apps do not replace it.
func (f *Fold) HasHistory(app string) bool {
	a := f.apps.Peek(appName(app))
	return a != nil && (*a).age.hasHistory()
}

// NotTracked returns how many apps had an event within the last 24 h and are not tracked,
// at most 10,000.
func (f *Fold) NotTracked() int { return f.untracked.count(f.newest) }

// addApp starts to track an app.
func (f *Fold) addApp(a *app) {
	_, evicted := f.apps.Add(a.name, a)
	a.size = a.measure()
	f.bytes += a.size
	if evicted != nil {
		f.forget(evicted.Value)
	}
}

// recordChange records that the state of an app has changed. a may be nil.
func (f *Fold) recordChange(a *app) {
	if a == nil || a.untracked {
		return
	}
	a.encoded = nil
	size := a.measure()
	f.bytes += size - a.size
	a.size = size
}

// evictToFit forgets apps until the others fit into MaxBytes, but not the one used last.
func (f *Fold) evictToFit() {
	for f.bytes > f.cfg.MaxBytes && f.apps.Len() > 1 {
		var newest *app
		for _, last := range f.apps.Backward() {
			newest = *last
			break
		}
		evicted := f.evictionCandidate(newest)
		if evicted == nil {
			evicted = f.apps.Oldest().Value
		}
		f.apps.Delete(evicted.name)
		f.forget(evicted)
	}
}

// forget removes what else is stored of an app that was removed from apps.
func (f *Fold) forget(a *app) {
	f.bytes -= a.size
	f.newcomers.Delete(a.name)
	if !a.age.isExpired(f.newest) {
		f.untracked.add(a.name, f.newest)
	}
	f.incidents.forget(a)
	f.count.apps++
	f.count.evictedApps.count(a)
	f.forgotten = append(f.forgotten, a.name)
}
