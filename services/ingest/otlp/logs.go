package otlp

import (
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func (d *Decoded) logs(all plog.Logs) error {
	d.Events = make([]telemetry.Event, 0, all.LogRecordCount())
	for _, from := range all.ResourceLogs().All() {
		sender := originOf(from.Resource())
		for _, scope := range from.ScopeLogs().All() {
			for _, record := range scope.LogRecords().All() {
				if err := d.add(logEvent(sender, record)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func logEvent(sender origin, r plog.LogRecord) telemetry.Event {
	exc := exceptionOf(r.Attributes())
	message := valueText(r.Body())
	used := usedByLog
	if message == "" && (exc.kind != "" || exc.message != "") {
		message, used = exc.String(), usedByException
	}
	if message == "" {
		message = r.EventName()
	}
	return telemetry.Event{
		Kind: telemetry.KindLog, App: sender.app, Session: sender.session(r.Attributes()), Release: sender.release,
		Time: at(r.Timestamp(), r.ObservedTimestamp()),
		Log: &telemetry.Log{
			Level:   level(r.SeverityNumber(), r.SeverityText(), exc.known()),
			Message: message,
			Stack:   exc.stack,
			Source:  source(r.Attributes()),
			Args:    rest(r.Attributes(), used),

			Fingerprint: telemetry.NewFingerprint(exc.fingerprint),
		},
	}
}

// The attributes of a position in the code, by their present and their former names.
var (
	codeFile   = []string{"code.file.path", "code.filepath"}
	codeLine   = []string{"code.line.number", "code.lineno"}
	codeColumn = []string{"code.column.number", "code.column"}
)

// source is file:line:column, as far as it is known.
func source(attributes pcommon.Map) string {
	position := text(attributes, codeFile...)
	if position == "" {
		return ""
	}
	for _, names := range [][]string{codeLine, codeColumn} {
		number := text(attributes, names...)
		if number == "" {
			break
		}
		position += ":" + number
	}
	return position
}

// The attributes that other fields of an event hold, so that its arguments do not.
var (
	usedByLog       = nameSet([]string{"session.id", exceptionStacktrace, errorFingerprint}, codeFile, codeLine, codeColumn)
	usedByException = nameSet([]string{"session.id", exceptionStacktrace, errorFingerprint, exceptionType, exceptionMessage}, codeFile, codeLine, codeColumn)
)

func nameSet(lists ...[]string) map[string]bool {
	set := map[string]bool{}
	for _, names := range lists {
		for _, name := range names {
			set[name] = true
		}
	}
	return set
}

// rest is the attributes that were not used, as one argument, or none.
func rest(attributes pcommon.Map, used map[string]bool) []any {
	var more map[string]any
	for name, value := range attributes.All() {
		if used[name] {
			continue
		}
		if more == nil {
			more = make(map[string]any, attributes.Len())
		}
		more[name] = jsonValue(value)
	}
	if more == nil {
		return nil
	}
	return []any{more}
}

// at is the first time that is set.
func at(times ...pcommon.Timestamp) time.Time {
	for _, t := range times {
		if t != 0 {
			return t.AsTime()
		}
	}
	return time.Time{}
}

// level goes by the severity's number, then by its text. Without both, a record with an
// exception is an error, else info.
func level(number plog.SeverityNumber, text string, exc bool) telemetry.Level {
	switch {
	case number >= plog.SeverityNumberTrace && number <= plog.SeverityNumberDebug4:
		return telemetry.LevelDebug
	case number >= plog.SeverityNumberInfo && number <= plog.SeverityNumberInfo4:
		return telemetry.LevelInfo
	case number >= plog.SeverityNumberWarn && number <= plog.SeverityNumberWarn4:
		return telemetry.LevelWarn
	case number >= plog.SeverityNumberError && number <= plog.SeverityNumberFatal4:
		return telemetry.LevelError
	}
	// The short names have a number behind them: INFO2.
	if l, ok := severities[strings.ToLower(strings.TrimRight(strings.TrimSpace(text), "1234"))]; ok {
		return l
	}
	if exc {
		return telemetry.LevelError
	}
	return telemetry.LevelInfo
}

// severities are the names of common loggers, of syslog, and of OpenTelemetry.
var severities = map[string]telemetry.Level{
	"trace": telemetry.LevelDebug, "verbose": telemetry.LevelDebug, "debug": telemetry.LevelDebug,
	"finest": telemetry.LevelDebug, "finer": telemetry.LevelDebug, "fine": telemetry.LevelDebug, "config": telemetry.LevelDebug,
	"info": telemetry.LevelInfo, "information": telemetry.LevelInfo, "informational": telemetry.LevelInfo,
	"notice": telemetry.LevelInfo, "log": telemetry.LevelInfo,
	"warn": telemetry.LevelWarn, "warning": telemetry.LevelWarn,
	"err": telemetry.LevelError, "error": telemetry.LevelError, "severe": telemetry.LevelError,
	"crit": telemetry.LevelError, "critical": telemetry.LevelError, "fatal": telemetry.LevelError,
	"alert": telemetry.LevelError, "emerg": telemetry.LevelError, "emergency": telemetry.LevelError, "panic": telemetry.LevelError,
}
