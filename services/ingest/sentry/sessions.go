package sentry

import (
	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// session is the update of one session.
type session struct {
	ID        lenientText                      `json:"sid"`
	Init      lenientText                      `json:"init"`
	Status    lenientText                      `json:"status"`
	Started   lenientText                      `json:"started"`
	Timestamp lenientText                      `json:"timestamp"`
	Attrs     lenientObject[sessionAttributes] `json:"attrs"`
}

type sessionAttributes struct {
	Release     lenientText `json:"release"`
	Environment lenientText `json:"environment"`
}

// decodeSession adds a log line for a session that started or ended. A crash is a warning: its
// error is an event of its own.
func (d *decoder) decodeSession(payload []byte) error {
	var s session
	if err := d.decode(payload, decoding.NewObject(&s)); err != nil {
		return err
	}
	o := d.baseOf("", "", s.Attrs.v.Release, s.ID)
	l := telemetry.Log{Level: telemetry.LevelInfo, Args: s.Attrs.v.logArgs(map[string]any{"status": string(s.Status)})}
	switch {
	case s.Status == "crashed" || s.Status == "abnormal" || s.Status == "unhandled":
		l.Level, l.Message = telemetry.LevelWarn, "session crashed"
	case s.Status == "exited":
		l.Message = "session ended"
	case s.Init == "true":
		l.Message = "session started"
	default: // the session continues
		return nil
	}
	return d.add(o.newLog(lenientText(firstNonEmpty(s.Timestamp, s.Started)).time(), l))
}

// decodeSessions adds log lines for the sessions that a server counted, one a minute.
func (d *decoder) decodeSessions(payload []byte) error {
	var counted struct {
		Aggregates objectList[struct {
			Started  lenientText `json:"started"`
			Exited   lenientText `json:"exited"`
			Errored  lenientText `json:"errored"`
			Crashed  lenientText `json:"crashed"`
			Abnormal lenientText `json:"abnormal"`
		}] `json:"aggregates"`
		Attrs lenientObject[sessionAttributes] `json:"attrs"`
	}
	if err := d.decode(payload, decoding.NewObject(&counted)); err != nil {
		return err
	}
	o := d.baseOf("", "", counted.Attrs.v.Release, "")
	for _, a := range counted.Aggregates {
		numbers := map[string]any{}
		for name, n := range map[string]lenientText{"exited": a.Exited, "errored": a.Errored, "crashed": a.Crashed, "abnormal": a.Abnormal} {
			if v, ok := n.number(); ok && v > 0 {
				numbers[name] = v
			}
		}
		l := telemetry.Log{Level: telemetry.LevelInfo, Message: "sessions ended", Args: counted.Attrs.v.logArgs(numbers)}
		if numbers["crashed"] != nil || numbers["abnormal"] != nil {
			l.Level, l.Message = telemetry.LevelWarn, "sessions crashed"
		}
		if err := d.add(o.newLog(a.Started.time(), l)); err != nil {
			return err
		}
	}
	return nil
}

// logArgs adds the attributes to args, and returns them as the arguments of a log line.
func (a sessionAttributes) logArgs(args map[string]any) []any {
	a.Release, a.Environment = dropLong(a.Release), dropLong(a.Environment)
	if a.Release != "" {
		args["release"] = string(a.Release)
	}
	if a.Environment != "" {
		args["environment"] = string(a.Environment)
	}
	if len(args) == 0 {
		return nil
	}
	return []any{args}
}
