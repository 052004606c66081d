package sentry

import (
	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// session is the update of one session.
type session struct {
	ID        text                        `json:"sid"`
	Init      text                        `json:"init"`
	Status    text                        `json:"status"`
	Started   text                        `json:"started"`
	Timestamp text                        `json:"timestamp"`
	Attrs     optional[sessionAttributes] `json:"attrs"`
}

type sessionAttributes struct {
	Release     text `json:"release"`
	Environment text `json:"environment"`
}

// session reports how a session started and ended. A crash is a warning, not an error: its
// error is an event of its own.
func (d *decoder) session(payload []byte) error {
	var s session
	if err := d.decode(payload, decoding.NewObject(&s)); err != nil {
		return err
	}
	o := d.from("", "", s.Attrs.v.Release, s.ID)
	l := telemetry.Log{Level: telemetry.LevelInfo, Args: s.Attrs.v.shown(map[string]any{"status": string(s.Status)})}
	switch {
	case s.Status == "crashed" || s.Status == "abnormal" || s.Status == "unhandled":
		l.Level, l.Message = telemetry.LevelWarn, "session crashed"
	case s.Status == "exited":
		l.Message = "session ended"
	case s.Init == "true":
		l.Message = "session started"
	default: // it goes on
		return nil
	}
	return d.add(o.log(text(first(s.Timestamp, s.Started)).time(), l))
}

// sessions reports the sessions that a server counted, by the minute.
func (d *decoder) sessions(payload []byte) error {
	var counted struct {
		Aggregates list[struct {
			Started  text `json:"started"`
			Exited   text `json:"exited"`
			Errored  text `json:"errored"`
			Crashed  text `json:"crashed"`
			Abnormal text `json:"abnormal"`
		}] `json:"aggregates"`
		Attrs optional[sessionAttributes] `json:"attrs"`
	}
	if err := d.decode(payload, decoding.NewObject(&counted)); err != nil {
		return err
	}
	o := d.from("", "", counted.Attrs.v.Release, "")
	for _, a := range counted.Aggregates {
		numbers := map[string]any{}
		for name, n := range map[string]text{"exited": a.Exited, "errored": a.Errored, "crashed": a.Crashed, "abnormal": a.Abnormal} {
			if v, ok := n.number(); ok && v > 0 {
				numbers[name] = v
			}
		}
		l := telemetry.Log{Level: telemetry.LevelInfo, Message: "sessions ended", Args: counted.Attrs.v.shown(numbers)}
		if numbers["crashed"] != nil || numbers["abnormal"] != nil {
			l.Level, l.Message = telemetry.LevelWarn, "sessions crashed"
		}
		if err := d.add(o.log(a.Started.time(), l)); err != nil {
			return err
		}
	}
	return nil
}

// shown adds the attributes to the arguments of a log line.
func (a sessionAttributes) shown(own map[string]any) []any {
	a.Release, a.Environment = shared(a.Release), shared(a.Environment)
	if a.Release != "" {
		own["release"] = string(a.Release)
	}
	if a.Environment != "" {
		own["environment"] = string(a.Environment)
	}
	if len(own) == 0 {
		return nil
	}
	return []any{own}
}
