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
	// maxLines is how many lines of the text become the message.
	maxLines = 20
	// maxSuite is the longest name of a suite, in characters: each failure repeats it.
	maxSuite = 1 << 10
)

// reader is the state of reading a document.
type reader struct {
	out testrun.Outcome
	// rooted is set once the root element was read.
	rooted bool
	// announced is set if the attributes of a suite count failures or errors.
	announced bool
	// suites are the open testsuite elements, the outermost first.
	suites []suite
	// open is the open testcase element, or nil.
	open *testcase
	// in is the open element within the testcase: failure, error or another.
	in string
}

// suite is an open testsuite element.
type suite struct {
	name string
	// own is the suite's time attribute, if hasTime; inner is the sum of its contents.
	own, inner time.Duration
	hasTime    bool
}

// testcase is an open testcase element.
type testcase struct {
	name, class           string
	time                  time.Duration
	failed, errs, skipped bool
	message               string // the first that is not empty
	failureType           string // the type attribute of the failure
	text                  []byte
	depth                 int // how many elements within it are open
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
			r.open.openElement(name, e.Attr)
		}
		return nil
	}
	switch name {
	case "testsuites":
		r.readCounts(e.Attr)
	case "testsuite":
		r.readCounts(e.Attr)
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

// readCounts sets announced if the attributes of a suite count failures.
func (r *reader) readCounts(attrs []xml.Attr) {
	for _, name := range []string{"failures", "errors"} {
		n, err := strconv.Atoi(attr(attrs, name))
		r.announced = r.announced || err == nil && n > 0
	}
}

// outcome returns the outcome at the end of the report. A report that counts failures but
// has no cases is an error: the run may have ended early.
func (r *reader) outcome() testrun.Outcome {
	if r.announced && r.out.Tests() == 0 {
		r.out.Errors = 1
		r.out.Fail("the report", "it counts failures or errors, but has no test cases")
	}
	return r.out
}

func (r *reader) text(text []byte) {
	if c := r.open; c != nil && c.depth == 1 && (r.in == "failure" || r.in == "error") {
		c.text = append(c.text, text[:min(len(text), maxText-len(c.text))]...)
	}
}

func (r *reader) end(name string) {
	switch {
	case r.open != nil && r.open.depth > 0:
		if r.open.depth--; r.open.depth == 0 {
			r.open.closeElement()
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

// add adds a testcase that has ended.
func (r *reader) add(c *testcase) {
	r.addTime(c.time)
	switch {
	case c.failed:
		r.out.Failed++
	case c.errs:
		r.out.Errors++
	case c.skipped:
		r.out.Skipped++
		return
	default:
		r.out.Passed++
		return
	}
	if len(r.out.Failures) < testrun.MaxFailures { // otherwise no name is needed
		r.out.Fail(r.nameOf(c), c.message)
	}
}

// nameOf returns the name of a case after that of its class or, without a class, after
// those of the suites around it. Node's reporter names every class "test".
func (r *reader) nameOf(c *testcase) string {
	name := c.name
	if c.class != "" && c.class != "test" {
		switch {
		case name == "":
			return c.class
		case within(name, c.class):
			return name
		default:
			return c.class + "." + name
		}
	}
	for i := len(r.suites) - 1; i >= 0 && len(name) < 4*maxSuite; i-- {
		if s := r.suites[i].name; s != "" && !within(name, s) {
			name = s + "/" + name
		}
	}
	return name
}

// within reports whether a name equals outer or continues it after a separator.
func within(name, outer string) bool {
	rest, ok := strings.CutPrefix(name, outer)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && (rest == "" || !unicode.IsLetter(next) && !unicode.IsDigit(next) && next != '_')
}

// openElement begins an element within a case.
func (c *testcase) openElement(name string, attrs []xml.Attr) {
	switch name {
	case "failure":
		c.failed = true
	case "error":
		c.errs = true
	case "skipped":
		c.skipped = true
		return
	default:
		return
	}
	c.text = c.text[:0]
	c.failureType = attr(attrs, "type")
	if c.message == "" {
		c.message = strings.TrimSpace(attr(attrs, "message"))
	}
}

// closeElement ends an element within a case. If its message is empty or a single word,
// such as Failed, the first lines of its text replace it.
func (c *testcase) closeElement() {
	text := firstLines(string(c.text))
	c.text = c.text[:0]
	switch {
	case text != "" && !strings.ContainsAny(c.message, " \t\n"):
		c.message = text
	case c.message == "":
		c.message = c.failureType
	}
}

// firstLines returns the first lines of a text, without blank lines around them and
// without the lines that go test puts between outputs.
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

// seconds parses a duration as reports write it: 0.342, or 1,234.56.
func seconds(text string) (time.Duration, bool) {
	v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 64)
	if err != nil || math.IsNaN(v) || v < 0 {
		return 0, false
	}
	return time.Duration(min(v, testrun.MaxDuration.Seconds()) * float64(time.Second)), true
}
