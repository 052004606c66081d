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
		Time: firstTime(r.Timestamp(), r.ObservedTimestamp()),
		Log: &telemetry.Log{
			Level:   level(r.SeverityNumber(), r.SeverityText(), exc.known()),
			Message: message,
			Stack:   exc.stack,
			Source:  source(r.Attributes()),
			Args:    unusedArgs(r.Attributes(), used),

			Fingerprint: telemetry.NewFingerprint(exc.fingerprint),
		},
	}
}

// Names of the attributes for a position in the code: first the current name, then the
// former one.
var (
	codeFile   = []string{"code.file.path", "code.filepath"}
	codeLine   = []string{"code.line.number", "code.lineno"}
	codeColumn = []string{"code.column.number", "code.column"}
)

// source returns file:line:column, as far as it is known.
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

// The attributes that become fields of a log event. The others become its arguments.
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

// unusedArgs returns the attributes that are not in used, as one argument, or none.
func unusedArgs(attributes pcommon.Map, used map[string]bool) []any {
	var unused map[string]any
	for name, value := range attributes.All() {
		if used[name] {
			continue
		}
		if unused == nil {
			unused = make(map[string]any, attributes.Len())
		}
		unused[name] = jsonValue(value)
	}
	if unused == nil {
		return nil
	}
	return []any{unused}
}

// firstTime returns the first time that is set, or the zero time.
func firstTime(times ...pcommon.Timestamp) time.Time {
	for _, t := range times {
		if t != 0 {
			return t.AsTime()
		}
	}
	return time.Time{}
}

// level returns the level by the severity's number, or without one by its text. A record
// without both is an error if it has an exception, else info.
func level(number plog.SeverityNumber, text string, hasException bool) telemetry.Level {
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
	// OpenTelemetry's short names may end in a number, as INFO2 does.
	if l, ok := severities[strings.ToLower(strings.TrimRight(strings.TrimSpace(text), "1234"))]; ok {
		return l
	}
	if hasException {
		return telemetry.LevelError
	}
	return telemetry.LevelInfo
}

// severities maps the severity names of common loggers, syslog and OpenTelemetry to levels.
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
