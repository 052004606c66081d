package sentry

import (
	"net/url"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// eventBase has the fields that the events of an item share.
type eventBase struct{ app, session, release, page string }

// baseOf returns the app, session and release of an item's events. The app is the tag app, else
// the app's own name, else the name in its release, else the project: its name, or sentry- and
// its number. The session is the trace, because only session items have a session. The release
// is the item's own, else that of its trace.
func (d *decoder) baseOf(app, appName, release, traceID lenientText) eventBase {
	name := firstNonEmpty(dropLong(app), dropLong(appName), releaseName(release), releaseName(d.header.Trace.v.Release))
	switch {
	case name != "":
	case strings.Trim(d.sender.Project, "0123456789") != "":
		name = dropLong(d.sender.Project)
	default:
		name = "sentry-" + dropLong(d.sender.Project)
	}
	return eventBase{
		app: name, session: firstNonEmpty(dropLong(traceID), dropLong(d.header.Trace.v.TraceID)),
		release: firstNonEmpty(dropLong(release), dropLong(d.header.Trace.v.Release)),
	}
}

// maxShared is the longest text that many events share, in bytes: it is hashed, resolved
// and masked for each of them.
const maxShared = 2 << 10

// dropLong returns a text, or "" if it is longer than maxShared. It is not cut: part of a secret
// would not be recognized.
func dropLong[T ~string](t T) T {
	if len(t) > maxShared {
		return ""
	}
	return t
}

// releaseName returns the name in a release such as web@1.2.3, or "".
func releaseName(release lenientText) lenientText {
	name, _, named := strings.Cut(string(dropLong(release)), "@")
	if !named {
		return ""
	}
	return lenientText(name)
}

// newEvent returns an event without payload. Its time has milliseconds.
func (o eventBase) newEvent(kind telemetry.Kind, at time.Time) telemetry.Event {
	return telemetry.Event{Kind: kind, App: o.app, Session: o.session, Release: o.release, URL: o.page, Time: at.Truncate(time.Millisecond)}
}

func (o eventBase) newLog(at time.Time, l telemetry.Log) telemetry.Event {
	e := o.newEvent(telemetry.KindLog, at)
	e.Log = &l
	return e
}

func (o eventBase) newAction(at time.Time, kind, target string) telemetry.Event {
	e := o.newEvent(telemetry.KindAction, at)
	e.Action = &telemetry.Action{Type: kind, Target: target}
	return e
}

// onPage returns the base with another page, if that is known.
func (o eventBase) onPage(page string) eventBase {
	if page = dropLong(page); page != "" {
		o.page = page
	}
	return o
}

// resolve returns a URL that is relative to a page as an absolute one.
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

// pathOf returns the path of a URL, absolute or not, without query.
func pathOf(raw string) string {
	raw, _, _ = strings.Cut(raw, "#")
	raw, _, _ = strings.Cut(raw, "?")
	if _, rest, ok := strings.Cut(raw, "://"); ok {
		_, path, _ := strings.Cut(rest, "/")
		return "/" + path
	}
	return raw
}
