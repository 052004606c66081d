package junit

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// maxText is how much of a failure's text is read, in bytes.
	maxText = 64 << 10
	// maxLines is how many lines of it make a message.
	maxLines = 20
	// maxSuite is the longest name of a suite, in characters: it prefixes the name of each
	// failure.
	maxSuite = 1 << 10
)

// reader is the state of reading a document.
type reader struct {
	out    testrun.Outcome
	rooted bool
	// announced: a suite counts failures or errors.
	announced bool
	// suites are the open testsuite elements, from the outside.
	suites []suite
	open   *testcase
	// in is the open element of the testcase: failure, error or another.
	in string
}

type suite struct {
	name string
	// own is the time of the suite, if hasTime; inner is the sum of its contents.
	own, inner time.Duration
	hasTime    bool
}

type testcase struct {
	name, class           string
	time                  time.Duration
	failed, errs, skipped bool
	message               string // the first that is not empty
	typ                   string
	text                  []byte
	depth                 int // of elements within
}

func (r *reader) start(e xml.StartElement) error {
	name := e.Name.Local
	if !r.rooted {
		if name != "testsuites" && name != "testsuite" {
			return fmt.Errorf("the root element is %.40q: in JUnit XML it is testsuites or testsuite", name)
		}
		r.rooted = true
	}
	if r.open != nil {
		if r.open.depth++; r.open.depth == 1 {
			r.in = name
			r.open.element(name, e.Attr)
		}
		return nil
	}
	switch name {
	case "testsuites":
		r.count(e.Attr)
	case "testsuite":
		r.count(e.Attr)
		s := suite{name: sanitize.Cut(attr(e.Attr, "name"), maxSuite)}
		s.own, s.hasTime = seconds(attr(e.Attr, "time"))
		r.suites = append(r.suites, s)
	case "testcase":
		r.open = &testcase{name: attr(e.Attr, "name"), class: attr(e.Attr, "classname")}
		r.open.time, _ = seconds(attr(e.Attr, "time"))
		r.open.skipped = attr(e.Attr, "status") == "notrun" // GoogleTest's disabled tests
	}
	return nil
}

// count notes whether a suite counts failures.
func (r *reader) count(attrs []xml.Attr) {
	for _, name := range []string{"failures", "errors"} {
		n, err := strconv.Atoi(attr(attrs, name))
		r.announced = r.announced || err == nil && n > 0
	}
}

// outcome is the sum at the end of the report. A report that counts failures and has no
// cases is an error: the run may have ended early.
func (r *reader) outcome() testrun.Outcome {
	if r.announced && r.out.Tests() == 0 {
		r.out.Errors = 1
		r.out.Fail("the report", "it counts failures or errors, and holds no cases")
	}
	return r.out
}

func (r *reader) text(text []byte) {
	if k := r.open; k != nil && k.depth == 1 && (r.in == "failure" || r.in == "error") {
		k.text = append(k.text, text[:min(len(text), maxText-len(k.text))]...)
	}
}

func (r *reader) end(name string) {
	switch {
	case r.open != nil && r.open.depth > 0:
		if r.open.depth--; r.open.depth == 0 {
			r.open.close()
		}
	case r.open != nil:
		r.add(r.open)
		r.open = nil
	case name == "testsuite" && len(r.suites) > 0:
		s := r.suites[len(r.suites)-1]
		r.suites = r.suites[:len(r.suites)-1]
		if !s.hasTime {
			s.own = s.inner
		}
		r.addTime(s.own)
	}
}

// addTime adds a duration to the suite around it, or to the total.
func (r *reader) addTime(d time.Duration) {
	if n := len(r.suites); n > 0 {
		r.suites[n-1].inner = min(r.suites[n-1].inner+d, testrun.MaxDuration)
		return
	}
	r.out.Duration = min(r.out.Duration+d, testrun.MaxDuration)
}

func (r *reader) add(k *testcase) {
	r.addTime(k.time)
	switch {
	case k.failed:
		r.out.Failed++
	case k.errs:
		r.out.Errors++
	case k.skipped:
		r.out.Skipped++
		return
	default:
		r.out.Passed++
		return
	}
	if len(r.out.Failures) < testrun.MaxFailures { // the name of others is not needed
		r.out.Fail(r.nameOf(k), k.message)
	}
}

// nameOf is the name of a case with its class, or without one with the suites around it.
// Node's reporter names every class "test".
func (r *reader) nameOf(k *testcase) string {
	name := k.name
	if k.class != "" && k.class != "test" {
		switch {
		case name == "":
			return k.class
		case within(name, k.class):
			return name
		default:
			return k.class + "." + name
		}
	}
	for i := len(r.suites) - 1; i >= 0 && len(name) < 4*maxSuite; i-- {
		if s := r.suites[i].name; s != "" && !within(name, s) {
			name = s + "/" + name
		}
	}
	return name
}

// within reports whether a name equals or extends another.
func within(name, outer string) bool {
	rest, ok := strings.CutPrefix(name, outer)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && (rest == "" || !unicode.IsLetter(next) && !unicode.IsDigit(next) && next != '_')
}

// element notes an element in a case.
func (k *testcase) element(name string, attrs []xml.Attr) {
	switch name {
	case "failure":
		k.failed = true
	case "error":
		k.errs = true
	case "skipped":
		k.skipped = true
		return
	default:
		return
	}
	k.text = k.text[:0]
	k.typ = attr(attrs, "type")
	if k.message == "" {
		k.message = strings.TrimSpace(attr(attrs, "message"))
	}
}

// close ends an element in a case. If it has no message, or one of a single word such as
// Failed, the message is the first lines of its text.
func (k *testcase) close() {
	text := firstLines(string(k.text))
	k.text = k.text[:0]
	switch {
	case text != "" && !strings.ContainsAny(k.message, " \t\n"):
		k.message = text
	case k.message == "":
		k.message = k.typ
	}
}

// firstLines are the first lines of a text, without blank ones around them and without the
// marks that go test puts between outputs.
func firstLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" && len(lines) == 0 || strings.HasPrefix(line, "=== ") {
			continue
		}
		if len(lines) == maxLines {
			break
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func attr(attrs []xml.Attr, name string) string {
	for _, a := range attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// seconds reads a duration as reports write it: 0.342, or 1,234.56.
func seconds(text string) (time.Duration, bool) {
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 64)
	if err != nil || math.IsNaN(v) || v < 0 {
		return 0, false
	}
	return time.Duration(min(v, testrun.MaxDuration.Seconds()) * float64(time.Second)), true
}
