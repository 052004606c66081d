// Command eval measures the detection rules: it makes streams whose truth is known, applies
// them to the detector, and writes what was found, what was missed and what was false. The
// same flags give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/nab"
	"github.com/tocsin-bus/tocsin/e2e/eval/report"
	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/tcpd"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

func main() {
	err := eval(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(usage)):
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

// usage is an error in the arguments.
type usage struct{ error }

// settings are the values of the flags.
type settings struct {
	seeds           string
	only, out       string
	nabDir, tcpdDir string
	size            workload.Size
}

// families are the names of the seeds.
var families = map[string]workload.Seeds{"tuning": workload.Tuning, "frozen": workload.Frozen}

func parse(args []string, stderr io.Writer) (settings, error) {
	s := settings{size: workload.Full}
	flags := flag.NewFlagSet("eval", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.seeds, "seeds", "tuning", "tuning, or frozen for figures to tell")
	flags.StringVar(&s.only, "only", "", "only the workloads whose name holds this, as 'bursts 0.5/s'")
	flags.StringVar(&s.out, "out", "", "the folder to write RESULTS.md and results.svg to; without one a table is printed")
	flags.StringVar(&s.nabDir, "nab", "", "a folder with the NAB corpus (github.com/numenta/NAB)")
	flags.StringVar(&s.tcpdDir, "tcpd", "", "a folder with the change point dataset (github.com/alan-turing-institute/TCPD)")
	flags.IntVar(&s.size.Hours, "hours", s.size.Hours, "simulated hours of each workload of errors, at least")
	flags.IntVar(&s.size.Pages, "pages", s.size.Pages, "pages of each workload of page loads")
	flags.IntVar(&s.size.Chatter, "chatter", s.size.Chatter, "runs of 2 h of each workload of lines")
	if err := flags.Parse(args); err != nil {
		return s, usage{err}
	}
	if _, ok := families[s.seeds]; !ok {
		return s, usage{fmt.Errorf("-seeds: %q is none of tuning, frozen", s.seeds)}
	}
	if flags.NArg() > 0 {
		return s, usage{fmt.Errorf("%q is no flag", flags.Arg(0))}
	}
	// Runs of errors last a twentieth of the hours; in less than an hour of each there
	// is hardly an episode.
	if s.size.Hours < 20 || s.size.Pages < 1 || s.size.Chatter < 1 {
		return s, usage{errors.New("-hours must be at least 20, -pages and -chatter 1")}
	}
	return s, nil
}

// command returns the command that makes the same results. It names no folder.
func (s *settings) command() string {
	flags := ""
	if s.seeds == "tuning" {
		flags += " -seeds tuning"
	}
	if s.only != "" {
		flags += fmt.Sprintf(" -only '%s'", s.only)
	}
	if s.size != workload.Full {
		flags += fmt.Sprintf(" -hours %d -pages %d -chatter %d", s.size.Hours, s.size.Pages, s.size.Chatter)
	}
	if flags != "" {
		if s.seeds == "frozen" {
			flags += " -seeds frozen"
		}
		return "go run ./e2e/cmd/eval" + flags
	}
	command := "make eval"
	if s.nabDir != "" {
		command += " NAB=DIR"
	}
	if s.tcpdDir != "" {
		command += " TCPD=DIR"
	}
	return command
}

func eval(args []string, out, progress io.Writer) error {
	s, err := parse(args, progress)
	if err != nil {
		return err
	}
	if s.out != "" { // measuring takes a while
		if dir, err := os.Stat(s.out); err != nil || !dir.IsDir() {
			return fmt.Errorf("-out: %s is no folder: make it first", s.out)
		}
	}
	results, err := s.measure(progress)
	if err != nil {
		return err
	}
	if s.out == "" {
		_, err := out.Write(results.Text())
		return err
	}
	picture, err := results.SVG()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"RESULTS.md": results.Markdown(), "results.svg": picture} {
		if err := os.WriteFile(filepath.Join(s.out, name), data, 0o644); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	return nil
}

func (s *settings) measure(progress io.Writer) (*report.Results, error) {
	seeds := families[s.seeds]
	events, begin := 0, time.Now()
	results := &report.Results{Command: s.command(), Seeds: s.seeds, Size: s.size}
	for _, w := range workload.All(s.size) {
		if !strings.Contains(w.Name(), s.only) {
			continue
		}
		began := time.Now()
		cells := run.Evaluate(w, seeds)
		for i := range cells {
			events += cells[i].Events
		}
		results.Cells = append(results.Cells, cells...)
		fmt.Fprintf(progress, "%-40s %5.1f s\n", w.Name(), time.Since(began).Seconds())
	}
	// The duration is no result: it differs each time.
	took := time.Since(begin).Seconds()
	fmt.Fprintf(progress, "%d events in %.1f s: %.1f million a second, with making and scoring the streams\n", events, took, float64(events)/1e6/took)
	if slices.ContainsFunc(results.Cells, func(c run.Cell) bool { return c.Workload.Generator == "bursts" }) {
		results.Bounds = run.Bounds(seeds)
	}
	if s.nabDir != "" {
		corpus, err := nab.Read(os.DirFS(s.nabDir))
		if err != nil {
			return nil, err
		}
		results.NAB = run.NAB(corpus)
	}
	if s.tcpdDir != "" {
		dataset, missing, err := tcpd.Read(os.DirFS(s.tcpdDir))
		if err != nil {
			return nil, err
		}
		results.TCPD, results.Missing = run.TCPD(dataset), len(missing)
	}
	if results.Empty() {
		return nil, usage{fmt.Errorf("-only: no workload is called like %q", s.only)}
	}
	return results, nil
}
