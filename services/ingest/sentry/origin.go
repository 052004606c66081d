package sentry

import (
	"net/url"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// origin is what the events of an item share.
type origin struct{ app, session, release, page string }

// from names the app, session and release of an item. The app is the tag app, else the
// app's own name, else the name in its release, else the project: its name, or sentry- and
// its number. The session is the trace, because only session items know theirs. The
// release is the item's own, else that of its trace.
func (d *decoder) from(app, appName, release, traceID text) origin {
	name := first(shared(app), shared(appName), releaseName(release), releaseName(d.header.Trace.v.Release))
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

// maxShared is the longest text that many events share, in bytes: it is hashed, resolved
// and masked for each of them.
const maxShared = 2 << 10

// shared drops a text that is too long. It is not cut, because half a secret would not be
// recognised.
func shared[T ~string](t T) T {
	if len(t) > maxShared {
		return ""
	}
	return t
}

// releaseName is the name in a release such as web@1.2.3.
func releaseName(release text) text {
	name, _, named := strings.Cut(string(shared(release)), "@")
	if !named {
		return ""
	}
	return text(name)
}

// event makes an event of this origin. Times have milliseconds.
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

// on is the origin on another page, if that is known.
func (o origin) on(page string) origin {
	if page = shared(page); page != "" {
		o.page = page
	}
	return o
}

// resolve makes a URL that is relative to a page absolute.
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
