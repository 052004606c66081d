package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxLine bounds a line of an event stream, in bytes.
const maxLine = 4 << 20

// Event is one event of the dashboard's stream.
type Event struct {
	// ID is the sequence of an alert, whose Kind is empty.
	ID   uint64
	Kind string
	Data []byte
	// At is when it was read.
	At time.Time
}

// Alert returns the alert of an event.
func (e Event) Alert() (a alert.Alert, err error) {
	if e.Kind != "" {
		return a, fmt.Errorf("event %s is no alert: %s", e.Kind, e.Data)
	}
	return a, json.Unmarshal(e.Data, &a)
}

// Stream is a reader of /events/stream.
type Stream struct {
	// Events buffers at most 100,000 events.
	Events <-chan Event
	done   chan struct{}
	cancel context.CancelFunc
}

// Listen opens the event stream of a dashboard. If last is over 0, the stream continues
// after that event.
func Listen(ctx context.Context, dashboard, query string, last uint64) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, dashboard+"/events/stream"+query, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	if last > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatUint(last, 10))
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req) //nolint:bodyclose // the reader closes it
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listen to the dashboard: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		cancel()
		return nil, errors.Join(fmt.Errorf("listen to the dashboard: got %s, want 200", resp.Status), resp.Body.Close())
	}
	events := make(chan Event, 100_000)
	s := &Stream{Events: events, done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		defer func() { _ = resp.Body.Close() }()                            // it was only read
		_ = readEvents(resp.Body, func() {}, func(e Event) { events <- e }) // Next reports the end
	}()
	return s, nil
}

// readEvents calls line for each line of an event stream and event for each event,
// until the end of the stream.
func readEvents(body io.Reader, line func(), event func(Event)) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	var e Event
	for lines.Scan() {
		line()
		if lines.Text() == "" {
			if e.Data != nil {
				e.At = time.Now()
				event(e)
			}
			e = Event{}
			continue
		}
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			e.ID, _ = strconv.ParseUint(value, 10, 64)
		case "event":
			e.Kind = value
		case "data":
			e.Data = []byte(value)
		}
	}
	return lines.Err()
}

// Done is closed when the stream has ended.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Next waits for the next event.
func (s *Stream) Next(ctx context.Context, within time.Duration) (Event, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case e := <-s.Events:
		return e, nil
	default:
	}
	select {
	case e := <-s.Events:
		return e, nil
	case <-s.done:
		select {
		case e := <-s.Events: // it came just before the end
			return e, nil
		default:
		}
		return Event{}, errors.New("got the end of the dashboard's stream, want an event")
	case <-ctx.Done():
		return Event{}, fmt.Errorf("got no event of the dashboard within %s", within)
	}
}

// Close ends the stream.
func (s *Stream) Close() {
	s.cancel()
	<-s.done
}
