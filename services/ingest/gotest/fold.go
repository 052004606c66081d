package gotest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
)

// maxKept is how many packages, running tests and builds are kept at once, of each.
// Results beyond it are counted, without their output.
const maxKept = 5000

// The beginnings of lines that do not explain a failure.
var (
	testMarks    = []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS", "--- FAIL", "--- SKIP"}
	packageMarks = []string{"PASS\n", "FAIL\n", "FAIL\t", "ok  \t", "coverage: ", "exit status "}
)

func begins(line string, marks []string) bool {
	line = strings.TrimLeft(line, " ")
	return slices.ContainsFunc(marks, func(mark string) bool { return strings.HasPrefix(line, mark) })
}

// fold is the state of a run that is being read.
type fold struct {
	out         testrun.Outcome
	events      bool // whether there was any event
	first, last time.Time
	// packages are the packages that have not ended, by import path.
	packages map[string]*pkg
	// running is how many tests are running in all packages.
	running int
	// builds are the builds with output or a failure, by import path.
	builds map[string]*build
	// other is the text between the events.
	other tail
}

// pkg is a package whose tests are running, with its own output.
type pkg struct {
	tail
	// tests are the running tests with their output, by name.
	tests map[string]*tail
	// parents are the running tests that have a failed subtest.
	parents map[string]bool
	failed  bool // whether one of its tests has failed
}

// build is the build of a package, with its output.
type build struct {
	tail
	failed bool
	// reported is set once a package has failed because of it.
	reported bool
}

func newFold() *fold {
	return &fold{packages: make(map[string]*pkg), builds: make(map[string]*build)}
}

func (f *fold) recordTime(t time.Time) {
	if t.IsZero() {
		return
	}
	if f.first.IsZero() || t.Before(f.first) {
		f.first = t
	}
	if t.After(f.last) {
		f.last = t
	}
}

// pkg returns the state of a package. If there are already maxKept of them, a new one is
// not kept.
func (f *fold) pkg(name string) *pkg {
	p := f.packages[name]
	if p == nil {
		p = &pkg{tests: make(map[string]*tail), parents: make(map[string]bool)}
		if len(f.packages) < maxKept {
			f.packages[name] = p
		}
	}
	return p
}

// testEvent adds an event of a test.
func (f *fold) testEvent(e event) {
	p := f.pkg(e.Package)
	t := p.tests[e.Test]
	if t == nil {
		t = &tail{}
		if f.running < maxKept && !e.Action.ends() {
			p.tests[e.Test] = t
			f.running++
		}
	}
	if e.Action == actionOutput && !begins(e.Output, testMarks) {
		t.add(e.Output)
	}
	if !e.Action.ends() {
		return
	}
	if p.tests[e.Test] != nil {
		delete(p.tests, e.Test)
		f.running--
	}
	switch e.Action {
	case actionPass:
		f.out.Passed++
	case actionSkip:
		f.out.Skipped++
	default:
		f.testFailed(p, e.Package, e.Test, t)
	}
	delete(p.parents, e.Test)
}

// testFailed reports a failed test, unless it failed only because a subtest did.
func (f *fold) testFailed(p *pkg, name, test string, t *tail) {
	p.failed = true
	for ancestor := parent(test); ancestor != "" && len(p.parents) < maxKept; ancestor = parent(ancestor) {
		p.parents[ancestor] = true
	}
	if p.parents[test] {
		return
	}
	f.out.Failed++
	f.out.Fail(name+"."+test, t.text())
}

// packageEvent adds an event of a package as a whole.
func (f *fold) packageEvent(e event) {
	p := f.pkg(e.Package)
	if e.Action == actionOutput && !begins(e.Output, packageMarks) {
		p.add(e.Output)
	}
	if !e.Action.ends() {
		return
	}
	if e.Action == actionFail {
		f.packageFailed(p, e)
	}
	f.forget(e.Package, p)
}

func (f *fold) forget(name string, p *pkg) {
	f.running -= len(p.tests)
	delete(f.packages, name)
}

// packageFailed reports the tests that were running, as after a panic or a timeout, and the
// package itself if no test has failed.
func (f *fold) packageFailed(p *pkg, e event) {
	text := p.text()
	// Subtests come before their parents, which then are not reported.
	names := slices.SortedFunc(maps.Keys(p.tests), func(a, b string) int { return strings.Compare(b, a) })
	for _, name := range names {
		t := p.tests[name]
		if t.text() == "" && text != "" {
			t.add(text)
		}
		if t.text() == "" {
			t.add("did not finish")
		}
		f.testFailed(p, e.Package, name, t)
	}
	if p.failed {
		return
	}
	if b := f.builds[e.FailedBuild]; b != nil {
		b.reported = true
		f.fail(e.Package, "build failed", &b.tail)
		return
	}
	reason := "failed outside of its tests"
	if e.FailedBuild != "" {
		reason = "build failed"
	}
	f.fail(e.Package, reason, &p.tail)
}

// fail reports an error outside of a test, with its output or, without any, the reason.
func (f *fold) fail(name, reason string, t *tail) {
	f.out.Errors++
	text := t.text()
	if text == "" {
		text = reason
	}
	f.out.Fail(name, text)
}

// unfinished reports a package whose end never came.
func (f *fold) unfinished(name string) {
	p := f.packages[name]
	text := "did not finish"
	if running := slices.Sorted(maps.Keys(p.tests)); len(running) > 0 {
		text += ", at " + strings.Join(running[:min(len(running), 5)], ", ")
		for _, test := range running {
			if output := p.tests[test].text(); output != "" {
				text += "\n" + output
				break
			}
		}
	}
	if output := p.text(); output != "" {
		text += "\n" + output
	}
	f.out.Errors++
	f.out.Fail(name, text)
}

func (f *fold) build(path string) *build {
	b := f.builds[path]
	if b == nil {
		b = &build{}
		if len(f.builds) < maxKept {
			f.builds[path] = b
		}
	}
	return b
}

// buildMarks begin the lines that name what is built.
var buildMarks = []string{"# "}

func (f *fold) buildOutput(path, output string) {
	if !begins(output, buildMarks) {
		f.build(path).add(output)
	}
}

func (f *fold) buildFailed(path string) { f.build(path).failed = true }

// packageOf returns the package that a build belongs to: the import path of a build for
// tests ends in " [package.test]".
func packageOf(path string) string {
	name, _, _ := strings.Cut(path, " ")
	return name
}
