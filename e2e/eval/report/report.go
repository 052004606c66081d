// Package report writes the results of an evaluation as Markdown and as a picture. The same
// results give the same bytes: they contain no date and no folder.
package report

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

// Results are the results of an evaluation.
type Results struct {
	// Command is the command that made the results. Seeds is the name of the family of
	// seeds.
	Command, Seeds string
	Size           workload.Size
	Cells          []run.Cell
	// Bounds are the best possible results for the workloads of bursts.
	Bounds []run.Bound
	// NAB and TCPD are the scores on the corpora, if any. Missing counts the series of TCPD
	// that were not in the folder.
	NAB     []run.NABScore
	TCPD    []run.TCPDScore
	Missing int
}

// Markdown returns the whole report.
func (r *Results) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Measured detection rules

Made by %s. It generates streams with known incidents, applies them to the detector event by event, and counts
what the detector finds, misses and invents. The same command gives the same bytes. [workload](workload) describes the streams,
[score](score) the counts. Seeds: %s; nothing is tuned on the frozen ones. A workload of errors has %d simulated hours or more,
one of page loads %d pages, and one of chatter 2 h %d times.

- An **episode** is an incident to find: a burst, a drift, a deploy that makes a page slower. It is found if an alert is raised in time:
  within 20 s of the start of a burst, 1 h of the end of a drift's rise, or 10 loads of a deploy.
- A **finding** is an alert with its repeats, confirmations and revisions until it ends. It is **false**, and counted once, if it was opened
  outside every episode. Whole episodes and findings are counted, not points in time.
- A **note** is an alert of severity info that ends nothing, such as one about a burst that recurs each hour: it reports a fact, not a
  problem. A revision that raises it to an error makes it a finding.
- A finding in an app's first 10 minutes is counted separately, as **cold start**.
- Parentheses hold 95%% intervals: percentile bootstrap over blocks of 12 h, or over pages; exact intervals for counts of 0.

![Measured detection rules](results.svg)
`, "`"+r.Command+"`", r.Seeds, r.Size.Hours, r.Size.Pages, r.Size.Chatter)
	r.writeFigures(&b)
	r.writeErrors(&b)
	r.writeEscalations(&b)
	r.writeBounds(&b)
	r.writeLoads(&b)
	r.writePageShapes(&b)
	r.writeLines(&b)
	r.writeNAB(&b)
	r.writeTCPD(&b)
	return b.Bytes()
}

// table writes a Markdown table. The first column is text, the others are figures.
func table(b *bytes.Buffer, header []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	rule := make([]string, len(header))
	for i := range rule {
		rule[i] = "---"
	}
	b.WriteByte('\n')
	line(header)
	line(rule)
	for _, row := range rows {
		line(row)
	}
}

func (r *Results) writeFigures(b *bytes.Buffer) {
	figures := r.figures()
	if len(figures) == 0 {
		return
	}
	b.WriteString("\n## Targets\n")
	var rows [][]string
	for _, f := range figures {
		rows = append(rows, []string{f.what, f.target, f.measured, f.verdict(), f.simple})
	}
	table(b, []string{"figure", "target", "measured", "", "simple rules"}, rows)
	for i := range r.Cells {
		if r.Cells[i].Escalating != nil {
			b.WriteString(`
Alerts of ` + "`rate-tail`" + ` about one error that escalates are not in these figures: they are counted below.
`)
			break
		}
	}
}

func (r *Results) writeErrors(b *bytes.Buffer) {
	var rows [][]string
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Workload.Kind == workload.Errors {
			rows = append(rows, errorRow(c.Workload.Name(), c.Rules, &c.Summary))
		}
	}
	for _, name := range r.rulesOf(workload.Errors) {
		var blocks []score.Tally
		cells := r.of(name, generator("bursts"))
		for i := range cells {
			blocks = append(blocks, cells[i].Blocks...)
		}
		if len(cells) > 1 {
			s := score.Summarise("bursts pooled", blocks)
			rows = append(rows, errorRow("bursts at all rates", name, &s))
		}
	}
	if rows == nil {
		return
	}
	fmt.Fprintf(b, `
## Errors

A run, with a new app, lasts %d h; runs with errors on a schedule last %d h, runs with a daily rhythm or drifts something between. Delays are in seconds,
from the start of an episode to the alert. "Open" is how many hours of an app-day a false finding was open, which hides further ones. "Learning"
counts the false findings at the first three recurrences of a schedule, which look like bursts. A drift can be found within 2 h, so rules
with many false alerts find it by chance: their precision shows that.
`, int(r.Size.ErrorRun().Hours()), r.Size.Hours)
	if r.hasShapes() {
		fmt.Fprintf(b, describeShapes, int(r.Size.ShapeRun().Hours()))
	}
	table(b, []string{"workload", "rules", "false an app-day", "open, h", "recall", "episodes", "precision", "delay p50", "delay p95", "cold start", "learning", "notes"}, rows)
}

func errorRow(name, rules string, s *score.Summary) []string {
	precision := none // without episodes, no finding can be right
	if s.Recall.Known() {
		precision = interval(s.Precision)
	}
	return []string{
		name, rules, interval(s.PerDay), alarmed(&s.Total), interval(s.Recall), strconv.Itoa(s.Total.Episodes), precision, number(s.P50), interval(s.P95),
		strconv.Itoa(s.Total.Cold), strconv.Itoa(s.Total.Learning), strconv.Itoa(s.Total.Notes),
	}
}

// alarmed returns how many hours a day false findings were open.
func alarmed(t *score.Tally) string {
	if t.Hours == 0 {
		return none
	}
	return digits(24 * t.Alarmed / t.Hours)
}

// writeEscalations writes the results about single errors, if a rule found any.
func (r *Results) writeEscalations(b *bytes.Buffer) {
	var rows [][]string
	some := false
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Escalating == nil {
			continue
		}
		s := &c.EscalatingSummary
		some = some || s.Total.Right+s.Total.False+s.Total.Cold > 0
		rows = append(rows, []string{
			c.Workload.Name(), c.Rules, interval(s.PerDay), alarmed(&s.Total), strconv.Itoa(s.Total.Right), strconv.Itoa(s.Total.Cold), strconv.Itoa(s.Total.Learning),
		})
	}
	if !some {
		return
	}
	b.WriteString(`
### Errors that escalate

The same rule applied to each single error, in addition to spikes. "Right" are those in an episode; they should be few, because an error that
is new or back has an alert of its own.
`)
	table(b, []string{"workload", "rules", "false an app-day", "open, h", "right", "cold start", "learning"}, rows)
}

func (r *Results) writeBounds(b *bytes.Buffer) {
	if len(r.Bounds) == 0 {
		return
	}
	b.WriteString(`
### How soon a burst can be found at best

The CUSUM of the likelihood ratio: a detector that knows both rates and has nothing to learn, with one false alarm a day. No other has a shorter
mean delay in the worst case. +30 errors in 10 s; see [bounds.go](run/bounds.go).
`)
	var rows [][]string
	for _, o := range r.Bounds {
		rows = append(rows, []string{fmt.Sprintf("bursts %g/s", o.Rate), number(o.Recall), number(o.P50), number(o.P95)})
	}
	table(b, []string{"workload", "recall", "delay p50", "delay p95"}, rows)
}

func (r *Results) writeLoads(b *bytes.Buffer) {
	var still, deploys [][]string
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Workload.Kind != workload.Loads || shaped(c) {
			continue
		}
		s := &c.Summary
		name := c.Workload.Name()
		if s.Total.Episodes == 0 {
			row := []string{name, c.Rules, interval(s.Per100)}
			for _, f := range s.Total.FalseAt {
				row = append(row, in100(f, s.Total.Loads))
			}
			still = append(still, append(row, strconv.Itoa(s.Total.Loads), strconv.Itoa(s.Total.Cold)))
			continue
		}
		deploys = append(deploys, []string{
			name, c.Rules, interval(s.Recall), share(s.Total.FoundAt[score.Probable], s.Total.Episodes),
			share(s.Total.FoundAt[score.Confirmed], s.Total.Episodes), strconv.Itoa(s.Total.Episodes), number(s.P50), number(s.P95),
			interval(s.Precision), interval(s.Per100),
		})
	}
	if still != nil {
		b.WriteString(`
## Page loads that did not change

False findings in 100 loads, in all and by the highest confidence that each reached. A page's first 10 minutes are its app's cold start.
"cached": three loads in ten are not cached and take three times as long. "correlated": slow loads come in spells of about a minute, as on a
machine that is busy at times. Every finding about either counts as false.
`)
		table(b, []string{"workload", "rules", "false in 100 loads", "none", "single", "probable", "confirmed", "loads", "cold start"}, still)
	}
	if deploys != nil {
		b.WriteString(`
## Deploys that made a page slower

Recall is within 10 loads: of any alert, and of alerts with at least that confidence by then. Delays are in loads; the first load after the deploy is 1.
`)
		table(b, []string{"workload", "rules", "recall", "probable", "confirmed", "deploys", "delay p50", "delay p95", "precision", "false in 100 loads"}, deploys)
	}
}

func (r *Results) writeLines(b *bytes.Buffer) {
	names := r.rulesOf(workload.Lines)
	if len(names) == 0 {
		return
	}
	b.WriteString(`
## Noise

The share of events that is hidden. Chatter is repeated lines below level error; rare lines occur once or twice. Errors of tools may be hidden, errors of
the app never, even if they have the words of chatter.
`)
	var rows [][]string
	sums := map[string]*run.Lines{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Workload.Kind != workload.Lines {
			continue
		}
		if sums[c.Rules] == nil {
			sums[c.Rules] = &run.Lines{}
		}
		sums[c.Rules].Add(c.Lines)
		rows = append(rows, lineRow(c.Workload.Name(), c.Rules, &c.Lines))
	}
	for _, name := range names {
		rows = append(rows, lineRow("all", name, sums[name]))
	}
	table(b, []string{"workload", "rules", "chatter", "after 10 min", "lines", "errors", "of", "rare lines", "of", "tool lines", "health checks"}, rows)

	var shapes []workload.Class
	for _, class := range sums[names[0]].Classes() {
		if class.Chatter() {
			shapes = append(shapes, class)
		}
	}
	b.WriteString("\nBy the part that varies:\n")
	rows = nil
	for _, class := range shapes {
		row := []string{class.Shape()}
		for _, name := range names {
			row = append(row, percent(sums[name].All[class]))
		}
		rows = append(rows, append(row, strconv.Itoa(sums[names[0]].All[class].Of)))
	}
	table(b, slices.Concat([]string{"shape"}, names, []string{"lines"}), rows)
}

func lineRow(name, rules string, l *run.Lines) []string {
	everything, learned := l.Chatter()
	errors, rare := l.All[workload.OfErrors], l.All[workload.OfRare]
	return []string{
		name, rules, percent(everything), percent(learned), strconv.Itoa(everything.Of), strconv.Itoa(errors.Hidden), strconv.Itoa(errors.Of),
		strconv.Itoa(rare.Hidden), strconv.Itoa(rare.Of), percent(l.All[workload.OfTools]), percent(l.All[workload.OfProbes]),
	}
}

func (r *Results) writeNAB(b *bytes.Buffer) {
	if len(r.NAB) == 0 {
		return
	}
	b.WriteString(`
## The Numenta Anomaly Benchmark

Normalised scores by the benchmark's own rules: 0 is a detector without findings, 100 one that finds every window in its first row. Values are
used as page loads, or as errors in 10 s if they are counts, scaled by the median of the rows on probation. The detection rules
were made for neither: they see only rises, and no threshold was optimised on the corpus, which the benchmark permits.
`)
	var rows [][]string
	for _, s := range r.NAB {
		row := []string{s.As, s.Rules, strconv.Itoa(s.Series)}
		for _, v := range s.Scores {
			row = append(row, strconv.FormatFloat(v, 'f', 2, 64))
		}
		rows = append(rows, append(row, strconv.Itoa(s.Detections)))
	}
	table(b, []string{"values as", "rules", "files", "standard", "reward_low_FP_rate", "reward_low_FN_rate", "detections"}, rows)
}

func (r *Results) writeTCPD(b *bytes.Buffer) {
	if len(r.TCPD) == 0 {
		return
	}
	b.WriteString(`
## The Turing Change Point Dataset

Averages over the series of F1 with a margin of 5 and of the covering, as the authors define them. Values are used as those of NAB, scaled by the
median of the first ten observations.
`)
	if r.Missing > 0 {
		fmt.Fprintf(b, "\n%d annotated series were not in the folder.\n", r.Missing)
	}
	var rows [][]string
	for _, s := range r.TCPD {
		rows = append(rows, []string{
			s.As, s.Rules, strconv.Itoa(s.Series), strconv.FormatFloat(s.F1, 'f', 3, 64), strconv.FormatFloat(s.Covering, 'f', 3, 64), strconv.Itoa(s.ChangePoints),
		})
	}
	table(b, []string{"values as", "rules", "series", "F1", "covering", "change points"}, rows)
}

// rulesOf lists the rules compared on a kind of workloads, in their order, if there are
// results.
func (r *Results) rulesOf(kind workload.Kind) (names []string) {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Workload.Kind == kind && !slices.Contains(names, c.Rules) {
			names = append(names, c.Rules)
		}
	}
	return names
}

// none is printed for a figure that cannot be measured.
const none = "–"

func number(e score.Estimate) string {
	if !e.Known() {
		return none
	}
	return digits(e.Value)
}

func interval(e score.Estimate) string {
	if !e.Known() {
		return none
	}
	return fmt.Sprintf("%s (%s to %s)", digits(e.Value), digits(e.Low), digits(e.High))
}

// digits formats a number with at most three digits after leading zeros, and no exponent.
func digits(v float64) string {
	decimals := 0
	switch size := math.Abs(v); {
	case v == 0:
	case size < 1:
		decimals = 3
	case size < 10:
		decimals = 2
	case size < 100:
		decimals = 1
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func in100(n, of int) string {
	if of == 0 {
		return none
	}
	return digits(100 * float64(n) / float64(of))
}

func share(n, of int) string {
	if of == 0 {
		return none
	}
	return digits(float64(n) / float64(of))
}

func percent(h run.Hidden) string {
	if h.Of == 0 {
		return none
	}
	return percentage(h.Share())
}

func percentage(share float64) string { return digits(math.Floor(1000*share)/10) + "%" }
