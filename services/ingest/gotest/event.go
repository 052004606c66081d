package gotest

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// action is what happened to a test, a package or a build: see go doc cmd/test2json and
// go help buildjson. Actions that are not listed here are ignored.
type action string

const (
	actionOutput      action = "output"
	actionPass        action = "pass"
	actionSkip        action = "skip"
	actionFail        action = "fail"
	actionBuildOutput action = "build-output"
	actionBuildFail   action = "build-fail"
)

// ends reports whether the action is the last one of a test or package.
func (a action) ends() bool {
	return a == actionPass || a == actionSkip || a == actionFail
}

// event is one line of the stream, with the fields that are used here. ImportPath names
// a build, and FailedBuild the failed build of a package.
type event struct {
	Time                    time.Time
	Action                  action
	Package, Test           string
	Output                  string
	ImportPath, FailedBuild string
}

// decode reads a line as an event, and reports whether it is one.
func decode(line []byte) (e event, ok bool) {
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil || e.Action == "" {
		return event{}, false
	}
	return e, true
}

// parent returns the test that a subtest belongs to, or "".
func parent(test string) string {
	return test[:max(strings.LastIndexByte(test, '/'), 0)]
}
