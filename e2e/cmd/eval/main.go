// Command eval measures how well the detectors tell what is wrong from what is
// not: it makes streams of which the truth is known, folds them into the detector
// and writes down what was found, what was missed and what was made up. The same
// flags give the same bytes.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

func main() {
	if err := eval(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func eval(args []string, out, progress io.Writer) error {
	size := workload.Full
	flags := flag.NewFlagSet("eval", flag.ContinueOnError)
	family := flags.String("seeds", "tuning", "tuning, or frozen for figures to tell")
	only := flags.String("only", "", "only the workloads whose name holds this, as 'bursts 0.5/s'")
	flags.IntVar(&size.Hours, "hours", size.Hours, "simulated hours of each workload of errors")
	flags.IntVar(&size.Pages, "pages", size.Pages, "pages of each workload of page loads")
	flags.IntVar(&size.Chatter, "chatter", size.Chatter, "runs of 2 h of each workload of lines")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seeds, ok := map[string]workload.Seeds{"tuning": workload.Tuning, "frozen": workload.Frozen}[*family]
	if !ok {
		return fmt.Errorf("-seeds: %q is none of tuning, frozen", *family)
	}
	var cells []run.Cell
	for _, w := range workload.All(size) {
		if !strings.Contains(w.Name(), *only) {
			continue
		}
		began := time.Now()
		cells = append(cells, run.Evaluate(w, seeds)...)
		fmt.Fprintf(progress, "%-40s %.1fs\n", w.Name(), time.Since(began).Seconds())
	}
	return text(out, cells)
}

// text prints cells for somebody who tunes.
func text(out io.Writer, cells []run.Cell) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKLOAD\tRULES\tFALSE/DAY\tFALSE/100\tLEARNING\tCOLD\tRECALL\tPRECISION\tP50\tP95\tSAID (unsaid single probable confirmed)")
	for _, c := range cells {
		if c.Workload.Kind == workload.Lines {
			continue
		}
		s := c.Summary
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\tfalse %v, found at least %v of %d\n", c.Workload.Name(), c.Rules,
			number(s.PerDay), number(s.Per100), s.Total.Learning, s.Total.Cold, number(s.Recall), number(s.Precision),
			number(s.P50), number(s.P95), s.Total.FalseAt, s.Total.FoundAt, s.Total.Episodes)
	}
	fmt.Fprintln(t, "\nWORKLOAD\tRULES\tCLASS\tHIDDEN\tOF\tSHARE\tAFTER 10 MIN")
	for _, c := range cells {
		var chatter, learned run.Hidden
		for _, class := range c.Lines.Classes() {
			all, late := c.Lines.All[class], c.Lines.Learned[class]
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.3f\t%.3f\n", c.Workload.Name(), c.Rules, class, all.Hidden, all.Of, all.Share(), late.Share())
			if class.Chatter() {
				chatter, learned = chatter.Plus(all), learned.Plus(late)
			}
		}
		if c.Workload.Kind == workload.Lines {
			fmt.Fprintf(t, "%s\t%s\tchatter\t%d\t%d\t%.3f\t%.3f\n", c.Workload.Name(), c.Rules, chatter.Hidden, chatter.Of, chatter.Share(), learned.Share())
		}
	}
	return t.Flush()
}

func number(e score.Estimate) string {
	if !e.Known() {
		return "-"
	}
	return fmt.Sprintf("%.3g (%.3g..%.3g)", e.Value, e.Low, e.High)
}
