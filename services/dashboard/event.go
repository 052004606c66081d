package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/services/dashboard/sse"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
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
	frame := sse.Frame(m.Seq, data)
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
