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
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// newEvent decodes an alert and encodes it for readers: as it is stored, including fields of
// another version, unless it contains secrets or invisible characters.
func newEvent(m bus.Message, mask *redact.Engine) (*fanout.Event, error) {
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
	if bytes.Equal(before, data) && isShowable(m.Data) {
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

// isShowable reports whether JSON, including unknown fields, contains no characters that must
// not be shown, neither as they are nor escaped.
func isShowable(data []byte) bool {
	return !bytes.Contains(data, []byte(`\u`)) && sanitize.Strip(string(data)) == strings.ReplaceAll(string(data), "\r\n", "\n")
}

// oneLine returns JSON without line breaks, which only occur between its tokens.
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

// alertFrame returns the server-sent event of an alert: its sequence as id, and its JSON,
// which must be one line.
func alertFrame(seq uint64, data []byte) []byte {
	return httpserve.AppendEvent(make([]byte, 0, len(data)+40), httpserve.ServerSentEvent{ID: strconv.FormatUint(seq, 10), Data: data})
}
