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
	Timestamp lenientText `json:"timestamp"`
	Type      lenientText `json:"type"`
	Category  lenientText `json:"category"`
	Level     lenientText `json:"level"`
	Message   lenientText `json:"message"`
	Data      rawValue    `json:"data"`
}

// crumbData is the part of a breadcrumb's data that is used here.
type crumbData struct {
	spanAttributes
	To         lenientText `json:"to"`
	StatusCode lenientText `json:"status_code"`
	Reason     lenientText `json:"reason"`
}

// logArgs returns the breadcrumb as an argument of the error's log line.
func (c *crumb) logArgs() map[string]any {
	shown := map[string]any{}
	if at := c.Timestamp.time(); !at.IsZero() {
		shown["time"] = at.Format("2006-01-02T15:04:05.000Z07:00")
	}
	for name, value := range map[string]lenientText{"category": c.Category, "type": c.Type, "level": c.Level, "message": c.Message} {
		if value != "" {
			shown[name] = shorten(string(value), maxCrumbText)
		}
	}
	if data := c.Data.decode(maxCrumbData); data != nil {
		shown["data"] = data
	}
	return shown
}

// maxCrumbAge is how far apart a breadcrumb and its event may be, by the sender's clock, for
// the breadcrumb to become an event of its own. Detection rules use the time of arrival: older
// breadcrumbs, which arrive all at once, would look like a burst.
const maxCrumbAge = 10 * time.Second

// maxSendDelay is how late an event may be sent for its breadcrumbs to become events: an SDK
// that was offline sends everything at once.
const maxSendDelay = time.Minute

// addBreadcrumbs adds events for the new breadcrumbs of e.
func (d *decoder) addBreadcrumbs(e *event, o eventBase) error {
	at, sent := e.Timestamp.time(), d.header.SentAt.time()
	if at.IsZero() {
		at = sent
	}
	if sent.Sub(at) > maxSendDelay { // false if the time of sending is unknown
		return nil
	}
	var events []telemetry.Event
	for i := range e.Breadcrumbs {
		c := &e.Breadcrumbs[i]
		when := c.Timestamp.time()
		if when.IsZero() || at.IsZero() || when.Before(at.Add(-maxCrumbAge)) || when.After(at.Add(maxCrumbAge)) {
			continue
		}
		ev, ok := d.crumbEvent(c, o, when)
		// Only breadcrumbs that become events are remembered.
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

// crumbEvent returns the event of a breadcrumb. ok is false if it becomes none.
func (d *decoder) crumbEvent(c *crumb, o eventBase, at time.Time) (ev telemetry.Event, ok bool) {
	switch c.Category {
	case "ui.click":
		return o.newAction(at, telemetry.ActionClick, string(c.Message)), c.Message != "" && !d.sentInOtherForm(fromCrumb, o.app, "click", string(c.Message), at)
	case "ui.input":
		return o.newAction(at, telemetry.ActionInput, string(c.Message)), c.Message != ""
	case "console":
		l := parseLevel(c.Level)
		return o.newLog(at, telemetry.Log{Level: l, Message: string(c.Message)}),
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
		return o.newAction(at, telemetry.ActionNavigate, to), to != "" && !d.sentInOtherForm(fromCrumb, o.app, "navigate", pathOf(to), at)
	}
	n, ok := c.request(&data, o.page)
	if !ok || d.sentInOtherForm(fromCrumb, o.app, "request", requestKey(n), at) {
		return telemetry.Event{}, false
	}
	e := o.newEvent(telemetry.KindNetwork, at)
	e.Network = n
	return e, true
}

// request returns the request of a breadcrumb. ok is false if its result is unknown: without a
// status, only the level error means that it failed.
func (c *crumb) request(data *crumbData, page string) (*telemetry.Network, bool) {
	n := &telemetry.Network{
		Method: strings.ToUpper(firstNonEmpty(data.method(), "GET")),
		URL:    resolve(page, data.url()),
	}
	status, known := parseStatus(lenientText(firstNonEmpty(data.StatusCode, data.status())))
	if !known && c.Level != "error" {
		return nil, false
	}
	n.Status = status
	if !known {
		n.Error = firstNonEmpty(data.Reason, c.Message)
	}
	start, ok1 := data.Start.number()
	end, ok2 := data.End.number()
	if ok1 && ok2 && end >= start {
		n.DurationMS = end - start
	}
	return n, n.URL != ""
}

const (
	// maxQueuedClicks is how many clicks on one target are kept if they were not in quick
	// succession. Two of them and the next one would be three clicks within a second, by the
	// time of arrival.
	maxQueuedClicks = 1
	// rageClicks within clickSpan are all kept: they are rage clicks.
	rageClicks    = 3
	rageClickSpan = time.Second
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
		isRage := false
		for i := rageClicks - 1; i < len(clicks); i++ {
			isRage = isRage || events[clicks[i]].Time.Sub(events[clicks[i-rageClicks+1]].Time) <= rageClickSpan
		}
		if isRage {
			continue
		}
		for _, i := range clicks[:max(0, len(clicks)-maxQueuedClicks)] {
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
