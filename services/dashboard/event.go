package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/sse"
)

// event reads an alert and encodes it for its readers: as it is stored, unless it
// holds what nobody should be shown. What a detector of another version has added to
// it stays.
func event(m bus.Message, mask *redact.Engine) (*fanout.Event, error) {
	var a alert.Alert
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return nil, err
	}
	before, err := a.MarshalJSON()
	if err != nil {
		return nil, err
	}
	a = display.PageAlert(a, mask)
	data, err := a.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, data) && plain(m.Data) {
		if data, err = oneLine(m.Data); err != nil {
			return nil, err
		}
	}
	frame := alertFrame(m.Seq, data)
	return &fanout.Event{
		Seq: m.Seq, Time: m.Time, Frame: frame, Data: data,
		App: a.App, Category: a.Category, Severity: a.Severity,
	}, nil
}

// plain says whether JSON holds no character that somebody should not be shown, also
// not where an alert has none of ours: not as it is, and not spelled out.
func plain(data []byte) bool {
	return !bytes.Contains(data, []byte(`\u`)) && sanitize.Strip(string(data)) == strings.ReplaceAll(string(data), "\r\n", "\n")
}

// oneLine is JSON without line ends, which only stand between its parts.
func oneLine(data []byte) ([]byte, error) {
	if !bytes.ContainsAny(data, "\r\n") {
		return data, nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return nil, fmt.Errorf("compact an alert: %w", err)
	}
	return line.Bytes(), nil
}

// alertFrame is one alert as readers of /events/stream get it: its sequence, and its JSON,
// which must be one line.
func alertFrame(seq uint64, data []byte) []byte {
	return sse.Append(make([]byte, 0, len(data)+40), sse.Event{ID: strconv.FormatUint(seq, 10), Data: data})
}
