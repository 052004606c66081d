package sentry

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// crumb is a breadcrumb: something that happened before an event.
type crumb struct {
	Timestamp text `json:"timestamp"`
	Type      text `json:"type"`
	Category  text `json:"category"`
	Level     text `json:"level"`
	Message   text `json:"message"`
	Data      open `json:"data"`
}

// crumbData is a breadcrumb's data, as far as it is used.
type crumbData struct {
	attrs
	To         text `json:"to"`
	StatusCode text `json:"status_code"`
	Reason     text `json:"reason"`
}

// shown is the breadcrumb as an argument of the log line.
func (c *crumb) shown() map[string]any {
	shown := map[string]any{}
	if at := c.Timestamp.time(); !at.IsZero() {
		shown["time"] = at.Format("2006-01-02T15:04:05.000Z07:00")
	}
	for name, value := range map[string]text{"category": c.Category, "type": c.Type, "level": c.Level, "message": c.Message} {
		if value != "" {
			shown[name] = short(string(value), maxCrumbText)
		}
	}
	if data := c.Data.value(maxCrumbData); data != nil {
		shown["data"] = data
	}
	return shown
}

// freshFor is how far a breadcrumb may be from its event, by the sender's clock, to become
// an event of its own. Detection rules go by arrival: older history that arrives at once
// would look like a burst.
const freshFor = 10 * time.Second

// lateAfter is how late an event may be sent for its breadcrumbs to count: an SDK that was
// offline sends everything at once.
const lateAfter = time.Minute

// breadcrumbs makes events of the new breadcrumbs of e.
func (d *decoder) breadcrumbs(e *event, o origin) error {
	at, sent := e.Timestamp.time(), d.header.SentAt.time()
	if at.IsZero() {
		at = sent
	}
	if sent.Sub(at) > lateAfter { // false if the time of sending is unknown
		return nil
	}
	var events []telemetry.Event
	for i := range e.Breadcrumbs {
		c := &e.Breadcrumbs[i]
		when := c.Timestamp.time()
		if when.IsZero() || at.IsZero() || when.Before(at.Add(-freshFor)) || when.After(at.Add(freshFor)) {
			continue
		}
		ev, ok := d.crumb(c, o, when)
		// Only what becomes an event is remembered.
		if ok && d.isNew("crumb", o.app, string(c.Timestamp), string(c.Category), string(c.Message), string(c.Data)) {
			events = append(events, ev)
		}
	}
	for _, ev := range dropQueuedClicks(events) {
		if err := d.add(ev); err != nil {
			return err
		}
	}
	return nil
}

// crumb makes an event of a breadcrumb, if there is a kind for it.
func (d *decoder) crumb(c *crumb, o origin, at time.Time) (telemetry.Event, bool) {
	switch c.Category {
	case "ui.click":
		return o.action(at, telemetry.ActionClick, string(c.Message)), c.Message != "" && !d.seenElsewhere(fromCrumb, o.app, "click", string(c.Message), at)
	case "ui.input":
		return o.action(at, telemetry.ActionInput, string(c.Message)), c.Message != ""
	case "console":
		l := level(c.Level)
		return o.log(at, telemetry.Log{Level: l, Message: string(c.Message)}),
			c.Message != "" && c.Level != "" && (l == telemetry.LevelWarn || l == telemetry.LevelError)
	}
	isRequest := c.Category == "http" || c.Category == "fetch" || c.Category == "xhr" || c.Type == "http"
	if !isRequest && c.Category != "navigation" {
		return telemetry.Event{}, false
	}
	var data crumbData
	if json.Unmarshal(c.Data, decoding.NewObject(&data), lenient) != nil {
		return telemetry.Event{}, false
	}
	if !isRequest {
		to := string(data.To)
		return o.action(at, telemetry.ActionNavigate, to), to != "" && !d.seenElsewhere(fromCrumb, o.app, "navigate", pathOf(to), at)
	}
	n, ok := c.request(&data, o.page)
	if !ok || d.seenElsewhere(fromCrumb, o.app, "request", requestKey(n), at) {
		return telemetry.Event{}, false
	}
	e := o.event(telemetry.KindNetwork, at)
	e.Network = n
	return e, true
}

// request is the request of a breadcrumb. Without a status it failed if its level is error;
// else its result is unknown.
func (c *crumb) request(data *crumbData, page string) (*telemetry.Network, bool) {
	n := &telemetry.Network{
		Method: strings.ToUpper(first(data.method(), "GET")),
		URL:    resolve(page, data.url()),
	}
	status, known := statusOf(text(first(data.StatusCode, data.status())))
	if !known && c.Level != "error" {
		return nil, false
	}
	n.Status = status
	if !known {
		n.Error = first(data.Reason, c.Message)
	}
	start, ok1 := data.Start.number()
	end, ok2 := data.End.number()
	if ok1 && ok2 && end >= start {
		n.DurationMS = end - start
	}
	return n, n.URL != ""
}

const (
	// fewClicks is how many clicks on one target are kept of those that were not in quick
	// succession: with two, one more before the next error would look like the third
	// within a second.
	fewClicks = 1
	// manyClicks within clickSpan are all kept: they are rage clicks.
	manyClicks = 3
	clickSpan  = time.Second
)

// dropQueuedClicks drops clicks that look like rage clicks only because they arrive at
// once.
func dropQueuedClicks(events []telemetry.Event) []telemetry.Event {
	byTarget := map[string][]int{}
	for i, e := range events {
		if e.Action != nil && e.Action.Type == telemetry.ActionClick {
			byTarget[e.Action.Target] = append(byTarget[e.Action.Target], i)
		}
	}
	drop := map[int]bool{}
	for _, clicks := range byTarget {
		slices.SortFunc(clicks, func(a, b int) int { return events[a].Time.Compare(events[b].Time) })
		impatient := false
		for i := manyClicks - 1; i < len(clicks); i++ {
			impatient = impatient || events[clicks[i]].Time.Sub(events[clicks[i-manyClicks+1]].Time) <= clickSpan
		}
		if impatient {
			continue
		}
		for _, i := range clicks[:max(0, len(clicks)-fewClicks)] {
			drop[i] = true
		}
	}
	kept := events[:0]
	for i, e := range events {
		if !drop[i] {
			kept = append(kept, e)
		}
	}
	return kept
}
