package investigator

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

const (
	defaultPageSize = 25
	maxPageSize     = 100
)

// statuses are those of sessions, in the order in which they pass them.
var statuses = []session.Status{
	session.StatusPending, session.StatusInProgress, session.StatusCancelling,
	session.StatusCompleted, session.StatusFailed, session.StatusCancelled, session.StatusTimedOut,
}

// listQuery is what GET /sessions lists.
type listQuery struct {
	page, pageSize       int
	sortBy               string
	ascending            bool
	statuses             []session.Status
	alertType, chain     string
	byAlertType, byChain bool
	from, until          time.Time
}

// sortKeys compare two items, for sort_by.
var sortKeys = map[string]func(a, b *session.Item) int{
	"created_at": byCreation,
	"status":     func(a, b *session.Item) int { return cmp.Compare(a.Status, b.Status) },
	"alert_type": func(a, b *session.Item) int { return cmp.Compare(a.AlertType, b.AlertType) },
	"author":     func(a, b *session.Item) int { return cmp.Compare(a.Author, b.Author) },
	"duration":   byDuration,
}

func byCreation(a, b *session.Item) int {
	return cmp.Or(time.Time(a.CreatedAt).Compare(time.Time(b.CreatedAt)), cmp.Compare(a.ID, b.ID))
}

// byDuration puts a session without a duration first.
func byDuration(a, b *session.Item) int {
	of := func(it *session.Item) int64 {
		if it.DurationMS == nil {
			return -1
		}
		return *it.DurationMS
	}
	return cmp.Compare(of(a), of(b))
}

// parseListQuery reads the parameters of GET /sessions.
func parseListQuery(values url.Values) (q listQuery, err error) {
	q = listQuery{page: 1, pageSize: defaultPageSize, sortBy: "created_at"}
	if values.Has("search") {
		return q, badRequest("search is not supported yet: filter by status, alert_type, chain_id, start_date and end_date")
	}
	p, err := parametersOf(values, "page", "page_size", "sort_by", "sort_order", "status", "alert_type", "chain_id", "start_date", "end_date")
	if err != nil {
		return q, err
	}
	if q.page, err = p.page(q.page); err != nil {
		return q, err
	}
	if q.pageSize, err = p.number("page_size", q.pageSize, 1, maxPageSize); err != nil {
		return q, err
	}
	if by, ok := p["sort_by"]; ok {
		if sortKeys[by] == nil {
			return q, badRequest("sort_by must be created_at, status, alert_type, author or duration")
		}
		q.sortBy = by
	}
	if order, ok := p["sort_order"]; ok {
		if order != "asc" && order != "desc" {
			return q, badRequest("sort_order must be asc or desc")
		}
		q.ascending = order == "asc"
	}
	if list, ok := p["status"]; ok {
		for _, name := range strings.Split(list, ",") {
			status := session.Status(strings.TrimSpace(name))
			if !slices.Contains(statuses, status) {
				return q, badRequest("status must be a list of pending, in_progress, cancelling, completed, failed, cancelled and timed_out, separated by commas")
			}
			q.statuses = append(q.statuses, status)
		}
	}
	q.alertType, q.byAlertType = p.text("alert_type")
	q.chain, q.byChain = p.text("chain_id")
	if q.from, err = p.date("start_date"); err != nil {
		return q, err
	}
	q.until, err = p.date("end_date")
	return q, err
}

// keeps reports whether the query selects an item.
func (q listQuery) keeps(it *session.Item) bool {
	created := time.Time(it.CreatedAt)
	switch {
	case q.statuses != nil && !slices.Contains(q.statuses, it.Status),
		q.byAlertType && it.AlertType != q.alertType,
		q.byChain && it.ChainID != q.chain,
		!q.from.IsZero() && created.Before(q.from),
		!q.until.IsZero() && !created.Before(q.until):
		return false
	}
	return true
}

// compare orders two items. Equal ones come newest first.
func (q listQuery) compare(a, b *session.Item) int {
	c := sortKeys[q.sortBy](a, b)
	if !q.ascending {
		c = -c
	}
	return cmp.Or(c, byCreation(b, a))
}

// parameters are those of a query, each given once.
type parameters map[string]string

func parametersOf(values url.Values, known ...string) (parameters, error) {
	p := parameters{}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return nil, badRequest("unknown parameter %q: there are none", name)
			}
			return nil, badRequest("unknown parameter %q: the parameters are %s", name, strings.Join(known, ", "))
		}
		if len(values[name]) > 1 {
			return nil, badRequest("the parameter %s is given twice", name)
		}
		p[name] = values[name][0]
	}
	return p, nil
}

func (p parameters) number(name string, without, low, high int) (int, error) {
	text, ok := p[name]
	if !ok {
		return without, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, badRequest("%s must be a number from %d to %d", name, low, high)
	}
	return n, nil
}

// page returns the number of a page, from 1. Any number is one: a page past the end is empty. A
// number that an int can't hold is the largest int.
func (p parameters) page(without int) (int, error) {
	text, ok := p["page"]
	if !ok {
		return without, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) || n < 1 {
		return 0, badRequest("page must be a number from 1")
	}
	return n, nil
}

// text returns a parameter that filters, and whether it does: an empty one does not.
func (p parameters) text(name string) (string, bool) { return p[name], p[name] != "" }

func (p parameters) date(name string) (time.Time, error) {
	text, ok := p[name]
	if !ok {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && !t.IsZero() {
			return t, nil
		}
	}
	return time.Time{}, badRequest("%s must be a time such as 2026-01-31T12:00:00Z, or a date", name)
}
