package logtemplate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/logtemplate"
	"github.com/tocsin-bus/tocsin/services/detector/template"
)

var names = strings.Fields("alice bob carol dave erin frank grace heidi ivan judy mallory niaj olivia peggy rupert sybil trent victor walter zoe")

// each makes a line for each of n names, which stands for NAME.
func each(n int, line string) (lines []string) {
	for _, name := range names[:n] {
		lines = append(lines, strings.ReplaceAll(line, "NAME", name))
	}
	return lines
}

// times makes lines that came n times each.
func times(n int, lines ...string) (all []logtemplate.Counted) {
	for _, l := range lines {
		all = append(all, logtemplate.Counted{Text: l, N: n})
	}
	return all
}

func shown(clusters []logtemplate.Cluster) (all []string) {
	for _, c := range clusters {
		all = append(all, fmt.Sprintf("%s *%d", c, c.N))
	}
	slices.Sort(all)
	return all
}

func TestMine(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []logtemplate.Counted
		want  []string
	}{
		{"a name in the middle", times(1, each(12, "user NAME signed in")...), []string{"user <*> signed in *12"}},
		{"a name in front", times(1, each(12, "NAME signed in again")...), []string{"<*> signed in again *12"}},
		{"a name at the end", times(1, each(12, "signed in again: NAME")...), []string{"signed in again: <*> *12"}},
		{"names at both ends", times(2, "alice was seen by bob", "carol was seen by dave", "erin was seen by frank", "grace was seen by heidi", "ivan was seen by judy"),
			[]string{"<*> was seen by <*> *10"}},
		{"names in two places", times(1, "a b c x d y", "a b c r d s", "a b c t d u", "a b c v d w", "a b c k d l", "a b c m d n", "a b c o d p", "a b c q d z", "a b c g d h", "a b c i d j"),
			[]string{"a b c <*> d <*> *10"}},
		{"9 lines are nothing", times(1, each(9, "user NAME signed in")...), nil},
		{"3 words don't vary", times(5, each(12, "user NAME left")...), nil},
		{"what is named varies behind its name", times(2, each(5, "level=info user=NAME in=<n>ms ok=true")...), []string{"level=info user=<*> in=<n>ms ok=true *10"}},
		{"all may that are named", times(3, "a=x b=y c=z d=<n>", "a=k b=l c=m d=<n>", "a=o b=p c=q d=<n>", "a=r b=s c=t d=<n>"), []string{"a=<*> b=<*> c=<*> d=<n> *12"}},
		{"the names do not", times(3, each(4, "took NAME=<n> of all there")...), nil},
		{"a name of a place", times(2, each(5, `queue [NAME] is "full", retry later`)...), []string{`queue [<*>] is "full", retry later *10`}},
		{"a name before a colon", times(2, each(5, "NAME: connected to the hub")...), []string{"<*>: connected to the hub *10"}},
		{"paths", times(2, each(5, "GET /shop/NAME took <n>ms")...), []string{"GET /shop/<*> took <n>ms *10"}},
		{"a path and a name are two kinds", append(times(2, each(5, "GET /shop/NAME took <n>ms")...), times(2, each(5, "GET NAME took <n>ms")...)...),
			[]string{"GET /shop/<*> took <n>ms *10", "GET <*> took <n>ms *10"}},
		{"a part of an address", times(2, each(5, "fetched http://NAME.example/x in <n>ms again")...), []string{"fetched http://<*>.example/x in <n>ms again *10"}},
		{"placeholders are no words that stay", times(2, each(5, "NAME <n> <n> <id> <str> x")...), nil},
		{"punctuation never varies", times(9, "a b c - d", "a b c + d", "a b c * d", "a b c = d"), nil},
		{"two states are two templates", append(times(2, each(5, "connection of NAME was opened")...), times(3, each(5, "connection of NAME was closed")...)...),
			[]string{"connection of <*> was closed *15", "connection of <*> was opened *10"}},
		{"an exception is not hidden in a crowd", append(times(29, "payment of the day is fine"), times(1, "payment of the day is refused", "payment of the day is late", "payment of the day is lost", "payment of the day is odd")...), nil},
		{"what is common stands apart, and the rest is wide", append(times(29, "job main took a while"), times(1, each(12, "job NAME took a while")...)...),
			[]string{"job <*> took a while *12"}},
		{"fewer vary than stay", times(3, "a b c x y z", "a b c k l m", "a b c o p q", "a b c r s t"), nil},
		{"other words are another template", append(times(2, each(5, "user NAME signed in")...), times(2, each(5, "mail to NAME bounced today")...)...),
			[]string{"mail to <*> bounced today *10", "user <*> signed in *10"}},
		{"a list", times(2, each(5, "reindexed NAME xNAME yNAME zNAME in the background")...), []string{"reindexed <*> <*> <*> <*> in the background *10"}},
		{"a list of several lengths", times(3, "reindexed ada in the background", "reindexed bob cy in the background", "reindexed dan eve, fay in the background", "reindexed gil in the background"), []string{"reindexed <...> in the background *12"}},
		{"a list of the same thing", times(4, "ids: {id:<n>,ok} of the day", "ids: {id:<n>,ok} {id:<n>,ok} of the day", "ids: {id:<n>,ok} {id:<n>,ok} {id:<n>,ok} of the day", "ids: {id:<n>,ok} {id:<n>,ok} {id:<n>,ok} {id:<n>,ok} of the day"), []string{"ids <...>:<n>,ok} of the day *16"}},
		{"of two lengths it is none", times(3, "reindexed ada in the background", "reindexed bob cy in the background", "reindexed dan eve in the background", "reindexed gil in the background"), nil},
		{"exceptions are no list", append(times(29, "reindexed main in the background"), times(1, "reindexed nothing at all in the background", "reindexed bob cy in the background", "reindexed dan eve, fay in the background", "reindexed gil in the background")...), nil},
		{"too little around it", times(3, "did ada in there", "did bob cy in there", "did dan eve, fay in there", "did gil in there"), nil},
		{"what ends otherwise is no list", times(3, "reindexed ada in the back", "reindexed bob cy in the front", "reindexed dan eve, fay in the middle", "reindexed gil in the yard"), nil},
		{"a list that is too long", times(2, each(5, "reindexed NAME xNAME yNAME zNAME vNAME wNAME uNAME in the background")...), nil},
		{"a path of another machine", times(2, each(5, `watching C:\Users\NAME\src\a.ts`)...), []string{`watching C:\Users\<*>\src\a.ts *10`}},
		{"what is far behind does not vary", times(9, each(5, "user it"+strings.Repeat(" word", logtemplate.MaxTokens)+" NAME")...), nil},
		{"what is before that does", times(9, each(5, "user NAME"+strings.Repeat(" word", logtemplate.MaxTokens))...), []string{"user <*>" + strings.Repeat(" word", logtemplate.MaxTokens) + " *45"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := shown(logtemplate.Mine(tt.lines, 10)); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func parsed(t *testing.T, text string) *logtemplate.Template {
	t.Helper()
	p, ok := logtemplate.Parse(strings.NewReplacer("<*>", string(rune(logtemplate.Hole)), "<...>", string(rune(logtemplate.List))).Replace(text))
	if !ok {
		t.Fatalf("Parse(%q) refuses it, want a template", text)
	}
	return p
}

func TestTemplates(t *testing.T) {
	for _, tt := range []struct {
		wide, narrow     string
		covers, overlaps bool
	}{
		{"user <*> signed in", "user bob signed in", true, true},
		{"user bob signed in", "user <*> signed in", false, true},
		{"user <*> signed in", "user <*> signed in", true, true},
		{"user <*> signed out", "user bob signed in", false, false},
		{"user <*> signed in", "user bob, signed in", false, false},
		{"user <*> signed in again", "user bob signed in <*>", false, true},
		{"user <*> signed in", "user bob signed in again", false, false},
		{"the user=<*> is in", "the user=bob is in", true, true},
		{"the user=<*> is in", "the order=bob is in", false, false},
		{"did <...> in the back", "did a b c in the back", true, true},
		{"did a b c in the back", "did <...> in the back", false, true},
		{"did <...> in the back", "did in the back", false, false},
		{"did <...> in the back", "did <*> in the back", true, true},
		{"did <...> in the back", "did <*> on the back", false, false},
		{"did <...> in the back", "did <...> out in the back", true, true},
		{"did <...> out in the back", "did <...> in the back", false, true},
		{"did so <...> in the back", "did so not in the back", true, true},
		{"did so <...> in the back", "did <*> not in the back", false, true},
		{"did so <...> in the back", "did not so in the back", false, false},
		{"did so <...> in the back", "did <...> there in the back", false, true},
		{"did so <...> in the back", "did not <...> in the back", false, false},
	} {
		a, b := parsed(t, tt.wide), parsed(t, tt.narrow)
		if got := a.Covers(b); got != tt.covers {
			t.Errorf("%q covers %q: %v, want %v", a, b, got, tt.covers)
		}
		if got, reverse := a.Overlaps(b), b.Overlaps(a); got != tt.overlaps || reverse != tt.overlaps {
			t.Errorf("%q overlaps %q: %v, in reverse %v, want %v", a, b, got, reverse, tt.overlaps)
		}
	}
	for _, text := range []string{"", "a b", "a b c", "\x01 b c \x01", "a \x01 \x01 b", "a b c u\x01", "a b c \x01\x01", "a b \x01 <n>", "a b c d \x01=e", "a b c d -\x01-",
		"a b c \x02", "\x02 a b c d", "a b c d \x02", "a b \x02 c \x02 d e", "a b \x01 \x02 c d", "a b c,\x02 d e", "a b \x02 c"} {
		if p, ok := logtemplate.Parse(text); ok {
			t.Errorf("Parse(%q) = %q, want it refused", text, p)
		}
	}
}

func TestIndex(t *testing.T) {
	var x logtemplate.Index[string]
	var line logtemplate.Line
	find := func(text string) string {
		if !line.Cut([]byte(text)) {
			return "not cut"
		}
		found := x.Find(nil, &line)
		slices.Sort(found)
		return strings.Join(found, " ")
	}
	all := []string{"user <*> signed in", "user bob signed <*>", "<*> was here again", "<*> <*> was here at last", "user <...> is not there now"}
	for i, text := range all {
		if !x.Add(parsed(t, text), fmt.Sprint(i)) {
			t.Fatalf("Add(%q) = false, want true", text)
		}
	}
	for text, want := range map[string]string{
		"user bob signed in": "0 1", "user eve signed in": "0", "user bob signed out": "1", "eve was here again": "2",
		"a b was here at last": "3", "user eve signed out": "", "user is not there now": "", "user eve is not there now": "4", "user a, b, c is not there now": "4", "user bob left": "not cut", "a\x01 b c d e": "not cut",
	} {
		if got := find(text); got != want {
			t.Errorf("templates of %q = %q, want %q", text, got, want)
		}
	}
	x.Delete(parsed(t, all[0]))
	if got := find("user bob signed in"); got != "1" || x.Len() != 4 {
		t.Errorf("after Delete: found %q of %d templates, want 1 of 4", got, x.Len())
	}
	room := 0
	for i := range 100 {
		if x.Add(parsed(t, fmt.Sprintf("user <*> signed %c%d", 'a'+i%26, i)), "x") {
			room++
		}
	}
	if room != 23 {
		t.Errorf("a leaf with one template took %d more, want 23", room)
	}
}

// words draws a line from few similar words, so that lines are similar.
func words(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(strings.Fields(
		"a b c d e f user=a user=b user=c key:x key:y [a] [b] (a) /a /b/c <n> <n>ms <str> - = =a a, b, http://a http://b 日本 é:1 é:2 '' \"a\"")), 1, 12).Draw(t, "words"), " ")
}

// TestClustersAreOfTheirLines checks that the order of the lines makes no difference, and
// each cluster against its lines (check).
func TestClustersAreOfTheirLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := map[string]int{}
		var lines []logtemplate.Counted
		for range rapid.IntRange(0, 60).Draw(t, "lines") {
			text := words(t)
			if counts[text] == 0 {
				counts[text] = rapid.IntRange(1, 5).Draw(t, "n")
				lines = append(lines, logtemplate.Counted{Text: text, N: counts[text]})
			}
		}
		clusters := logtemplate.Mine(lines, 4)
		check(t, clusters, counts)
		if again := logtemplate.Mine(rapid.Permutation(lines).Draw(t, "order"), 4); !slices.Equal(shown(again), shown(clusters)) {
			t.Fatalf("clusters in another order = %q, want %q", shown(again), shown(clusters))
		}
	})
}

// check checks that the template of each cluster can be parsed, matches and covers the lines
// of the cluster, and counts them.
func check(t interface{ Fatalf(string, ...any) }, clusters []logtemplate.Cluster, counts map[string]int) {
	var x logtemplate.Index[string]
	var line logtemplate.Line
	for _, c := range clusters {
		again, ok := logtemplate.Parse(c.Text())
		if !ok || again.Width() != c.Width() || c.Width() == 0 || !again.Covers(c.Template) || !c.Covers(again) {
			t.Fatalf("Parse(%q) = %q, %v, want the same template", c.Text(), again, ok)
		}
		room := x.Add(c.Template, c.Text())
		n := 0
		for _, text := range c.Lines {
			n += counts[text]
			if !line.Cut([]byte(text)) || !c.Matches(&line) || room && !slices.Contains(x.Find(nil, &line), c.Text()) {
				t.Fatalf("template %q does not match its line %q, want a match", c, text)
			}
			if exact, ok := logtemplate.Parse(text); !ok || !c.Covers(exact) || exact.Covers(c.Template) {
				t.Fatalf("template %q does not cover its line %q, or the line covers it; want that it is wider", c, text)
			}
		}
		if n != c.N || len(c.Lines) < 4 {
			t.Fatalf("cluster %q has count %d and %d lines, want %d and at least 4", c, c.N, len(c.Lines), n)
		}
	}
}

// FuzzMine mines the templates of the lines of a text.
func FuzzMine(f *testing.F) {
	f.Add(strings.Join(each(8, "user NAME signed in"), "\n"))
	f.Add(strings.Join(each(8, "k=NAME l=[NAME], m:NAME <n> {(NAME)} http://NAME/"), "\n"))
	f.Add("a b c d\na b c \x01\n= : == ::\n\xff \xfe b c\n  a b c\n' \" ` <")
	f.Fuzz(func(t *testing.T, text string) {
		counts := map[string]int{}
		var lines []logtemplate.Counted
		for l := range strings.Lines(text) {
			l = strings.TrimSuffix(l, "\n")
			if len(l) < template.MaxLen && counts[l] == 0 && len(lines) < 300 {
				counts[l] = 3
				lines = append(lines, logtemplate.Counted{Text: l, N: 3})
			}
		}
		check(t, logtemplate.Mine(lines, 10), counts)
	})
}

// corpus returns n different lines, as an app may log in ten minutes.
func corpus(n int) (lines []logtemplate.Counted) {
	seen := map[string]bool{}
	for i := 0; len(lines) < n; i++ {
		name, job := names[i%len(names)], names[i/7%len(names)]+names[i/31%len(names)]+names[i/97%len(names)]
		for _, l := range []string{
			"user " + name + " opened page /shop/" + job + " after " + fmt.Sprint(i) + " ms",
			"worker " + name + " finished task " + job + " in " + fmt.Sprint(i) + "ms",
			"level=info tenant=" + name + " path=/api/" + job + "/items status=200 id=" + fmt.Sprint(i),
			"cache miss for key " + job + " in region " + name + ", reading the database",
		} {
			if l = template.Message(l); !seen[l] && len(lines) < n {
				seen[l] = true
				lines = append(lines, logtemplate.Counted{Text: l, N: 1 + i%3})
			}
		}
	}
	return lines
}

// BenchmarkMine mines as many different lines as are counted for one app: lines of four
// templates, and lines that have nothing in common.
func BenchmarkMine(b *testing.B) {
	const n = 2000
	different := make([]logtemplate.Counted, n)
	alike := make([]logtemplate.Counted, n) // in one leaf, and with nothing in common
	for i := range n {
		var d, a strings.Builder
		for j := range 40 {
			fmt.Fprintf(&d, "w%dx%d ", i, j)
			fmt.Fprintf(&a, "w%dx%d ", i*(j%2), j)
		}
		different[i] = logtemplate.Counted{Text: strings.TrimSpace(d.String()), N: 1}
		alike[i] = logtemplate.Counted{Text: strings.TrimSpace(a.String()), N: 1}
	}
	for _, bm := range []struct {
		name  string
		lines []logtemplate.Counted
	}{{"four templates", corpus(n)}, {"all different", different}, {"half of it the same", alike}} {
		b.Run(bm.name, func(b *testing.B) {
			for b.Loop() {
				logtemplate.Mine(bm.lines, 10)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/line")
		})
	}
}

// BenchmarkFind measures the cost of one line: the scanner, and finding its templates among
// many.
func BenchmarkFind(b *testing.B) {
	var x logtemplate.Index[int]
	for i, c := range logtemplate.Mine(corpus(2000), 10) {
		x.Add(c.Template, i)
	}
	known := x.Len()
	for i := range 100 {
		t, ok := logtemplate.Parse(fmt.Sprintf("user \x01 opened file w%d of \x01 ms", i))
		if ok {
			x.Add(t, i)
		}
	}
	for _, bm := range []struct{ name, message string }{
		{"of a template", "user dave opened page /shop/alicebob after 1234 ms"},
		{"of none", "user dave signed out of the shop for good after 1234 ms"},
		{"long", "level=info tenant=acme path=/api/alicebob/items status=200 id=8f14e45f-ceea-467f-a8f2-9b1d1c2f4c11 and something about what happened there"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var buf []byte
			var found []int
			var line logtemplate.Line
			for b.Loop() {
				buf = template.Append(buf[:0], bm.message)
				if line.Cut(buf) {
					found = x.Find(found[:0], &line)
				}
			}
			b.ReportMetric(float64(known), "mined")
		})
	}
}
