package sentry

import (
	"net/url"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// origin is what the events of an item have in common.
type origin struct{ app, session, release, page string }

// from names the app and session of an item: by its tag app, the app's own name,
// the name in its release, the project where that is a name, else by the
// project's number. The session is the trace, for want of a better one: only
// items of sessions know theirs. The release is the item's own, else that of its
// trace.
func (d *decoder) from(app, appName, release, traceID text) origin {
	name := first(shared(app), shared(appName), released(release), released(d.header.Trace.v.Release))
	switch {
	case name != "":
	case strings.Trim(d.sender.Project, "0123456789") != "":
		name = shared(d.sender.Project)
	default:
		name = "sentry-" + shared(d.sender.Project)
	}
	return origin{
		app: name, session: first(shared(traceID), shared(d.header.Trace.v.TraceID)),
		release: first(shared(release), shared(d.header.Trace.v.Release)),
	}
}

// maxShared is how long a text may be that many events have in common, in bytes:
// each of them is hashed, resolved and looked through with it.
const maxShared = 2 << 10

// shared leaves out a text that is too long. It isn't cut: half a secret would
// not be known for one.
func shared[T ~string](t T) T {
	if len(t) > maxShared {
		return ""
	}
	return t
}

// released is the name in a release such as web@1.2.3.
func released(release text) text {
	name, _, named := strings.Cut(string(shared(release)), "@")
	if !named {
		return ""
	}
	return text(name)
}

// event begins an event of this origin. Times have milliseconds, as everywhere.
func (o origin) event(kind telemetry.Kind, at time.Time) telemetry.Event {
	return telemetry.Event{Kind: kind, App: o.app, Session: o.session, Release: o.release, URL: o.page, Time: at.Truncate(time.Millisecond)}
}

func (o origin) log(at time.Time, l telemetry.Log) telemetry.Event {
	e := o.event(telemetry.KindLog, at)
	e.Log = &l
	return e
}

func (o origin) action(at time.Time, kind, target string) telemetry.Event {
	e := o.event(telemetry.KindAction, at)
	e.Action = &telemetry.Action{Type: kind, Target: target}
	return e
}

// on is the origin on another page, where that is known.
func (o origin) on(page string) origin {
	if page = shared(page); page != "" {
		o.page = page
	}
	return o
}

// resolve makes a page's relative URL absolute.
func resolve(page, ref string) string {
	if page == "" || !strings.HasPrefix(ref, "/") {
		return ref
	}
	base, err := url.Parse(page)
	if err != nil || base.Host == "" {
		return ref
	}
	if strings.HasPrefix(ref, "//") {
		return base.Scheme + ":" + ref
	}
	return base.Scheme + "://" + base.Host + ref
}

// pathOf is the path of a URL, absolute or not, without query.
func pathOf(raw string) string {
	raw, _, _ = strings.Cut(raw, "#")
	raw, _, _ = strings.Cut(raw, "?")
	if _, rest, ok := strings.Cut(raw, "://"); ok {
		_, path, _ := strings.Cut(rest, "/")
		return "/" + path
	}
	return raw
}
