// Command eval measures the detection rules: it generates streams with known incidents,
// applies them to the detector, and reports what was found, missed and false. The same flags
// give the same bytes.
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

// families has the families of seeds by name.
var families = map[string]workload.Seeds{"tuning": workload.Tuning, "frozen": workload.Frozen}

func parse(args []string, stderr io.Writer) (settings, error) {
	s := settings{size: workload.Full}
	flags := flag.NewFlagSet("eval", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.seeds, "seeds", "tuning", "family of seeds: tuning, or frozen for published figures")
	flags.StringVar(&s.only, "only", "", "only workloads with this in their name, for example 'bursts 0.5/s'")
	flags.StringVar(&s.out, "out", "", "folder for RESULTS.md and results.svg; without it a table is printed")
	flags.StringVar(&s.nabDir, "nab", "", "folder with the NAB corpus (github.com/numenta/NAB)")
	flags.StringVar(&s.tcpdDir, "tcpd", "", "folder with the change point dataset (github.com/alan-turing-institute/TCPD)")
	flags.IntVar(&s.size.Hours, "hours", s.size.Hours, "minimum of simulated hours of each workload of errors")
	flags.IntVar(&s.size.Pages, "pages", s.size.Pages, "number of pages of each workload of page loads")
	flags.IntVar(&s.size.Chatter, "chatter", s.size.Chatter, "number of runs, of 2 h each, of each workload of lines")
	if err := flags.Parse(args); err != nil {
		return s, usage{err}
	}
	if _, ok := families[s.seeds]; !ok {
		return s, usage{fmt.Errorf("-seeds: %q is not one of tuning, frozen", s.seeds)}
	}
	if flags.NArg() > 0 {
		return s, usage{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	// A run of errors lasts a twentieth of the hours. A run of less than an hour has hardly
	// an episode.
	if s.size.Hours < 20 || s.size.Pages < 1 || s.size.Chatter < 1 {
		return s, usage{errors.New("-hours must be at least 20, -pages and -chatter 1")}
	}
	return s, nil
}

// command returns a command that gives the same results. It names no folder.
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
	if s.out != "" { // checked first, because measuring takes minutes
		if dir, err := os.Stat(s.out); err != nil || !dir.IsDir() {
			return fmt.Errorf("-out: %s is no folder; create it first", s.out)
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

// measure evaluates the selected workloads and corpora.
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
	// Durations differ each time, so they are no results.
	took := time.Since(begin).Seconds()
	fmt.Fprintf(progress, "%d events in %.1f s: %.1f million a second, generating and scoring included\n", events, took, float64(events)/1e6/took)
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
		return nil, usage{fmt.Errorf("-only: no workload has %q in its name", s.only)}
	}
	return results, nil
}
