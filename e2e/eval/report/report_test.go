package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/e2e/eval/report"
	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

var update = flag.Bool("update", false, "write the golden files")

// cell returns a cell with tallies.
func cell(name, rules string, kind workload.Kind, blocks ...score.Tally) run.Cell {
	generator, parameters, _ := strings.Cut(name, " ")
	return run.Cell{
		Workload: workload.Workload{Generator: generator, Cell: parameters, Kind: kind}, Rules: rules,
		Blocks: blocks, Summary: score.Summarise(name, blocks),
	}
}

func lines(name, rules string, chatter, learned, errors run.Hidden) run.Cell {
	c := cell(name, rules, workload.Lines)
	c.Lines = run.Lines{
		All: map[workload.Class]run.Hidden{
			"chatter:names": chatter, workload.OfErrors: errors, workload.OfRare: {Of: 3}, workload.OfTools: {Hidden: 1, Of: 3},
			workload.OfProbes: {Hidden: 99, Of: 100},
		},
		Learned: map[workload.Class]run.Hidden{"chatter:names": learned},
	}
	return c
}

func raised(c run.Cell, alerts int) run.Cell {
	c.Raised = run.Raised{Alerts: alerts, Loads: 1000}
	return c
}

// made returns results of each kind, with targets that are met and missed.
func made() *report.Results {
	wolf := score.Tally{Hours: 12, Episodes: 4, Found: 3, Delays: []float64{2, 6, 7.5}, Right: 3, False: 50, FalseAt: [4]int{50}, FoundAt: [4]int{3}, Cold: 2}
	calm := score.Tally{Hours: 12, Episodes: 4, Found: 4, Delays: []float64{1, 2, 3.25, 4}, Right: 4, FoundAt: [4]int{4}}
	still := score.Tally{Hours: 12, False: 1, FalseAt: [4]int{1}, Learning: 1}
	loads := score.Tally{Loads: 1000, False: 70, FalseAt: [4]int{70}}
	sure := score.Tally{Loads: 1000, False: 4, FalseAt: [4]int{0, 2, 1, 1}}
	found := score.Tally{Loads: 60, Episodes: 10, Found: 9, Delays: []float64{1, 1, 2, 2, 3, 4, 4, 5, 9}, Right: 9, FoundAt: [4]int{9, 9, 8, 6}}
	escalating := cell("bursts 0.1/s", "rate-tail", workload.Errors, calm, calm)
	escalating.Escalating, escalating.EscalatingSummary = escalating.Blocks, score.Summarise("escalating", []score.Tally{still})
	return &report.Results{
		Command: "make eval", Seeds: "tuning", Size: workload.Size{Hours: 24, Pages: 2, Chatter: 1},
		Cells: []run.Cell{
			cell("bursts 0.1/s", "ratio3x", workload.Errors, wolf, wolf),
			escalating,
			cell("bursts 2/s", "ratio3x", workload.Errors, wolf, calm),
			cell("bursts 2/s", "rate-tail", workload.Errors, calm, wolf),
			cell("clustered 0.5/s", "rate-tail", workload.Errors, still, still),
			cell("steady 0.1/s", "rate-tail", workload.Errors, score.Tally{Hours: 24}),
			cell("unchanged cv 0.25", "spec", workload.Loads, loads, loads),
			cell("unchanged cv 0.25", "confirmed", workload.Loads, sure, sure),
			cell("deploy +30%, cv 0.15", "confirmed", workload.Loads, found, found),
			raised(cell("varied cv 0.35", "spec", workload.Loads, loads, loads), 95),
			raised(cell("varied cv 0.35", "confirmed", workload.Loads, sure, sure), 11),
			cell("doubled cv 0.35", "spec", workload.Loads, found, found),
			cell("doubled cv 0.35", "confirmed", workload.Loads, found, found),
			lines("noisy 1 lines/s", "spec", run.Hidden{Hidden: 1, Of: 2}, run.Hidden{Hidden: 1, Of: 1}, run.Hidden{Of: 5}),
			lines("noisy 1 lines/s", "mined", run.Hidden{Hidden: 8999, Of: 10000}, run.Hidden{Hidden: 9, Of: 10}, run.Hidden{Hidden: 1, Of: 5}),
		},
		Bounds: []run.Bound{{Rate: 0.1, Recall: known(1), P50: known(1.25), P95: known(2.5)}, {Rate: 2, Recall: known(0.9675), P50: known(5.5), P95: known(9)}},
		NAB:    []run.NABScore{{As: "page loads", Rules: "spec", Series: 58, Scores: []float64{-12.345, 0, 50.5}, Detections: 1000}},
		TCPD:   []run.TCPDScore{{As: "errors", Rules: "rate-tail", Series: 20, F1: 0.5, Covering: 0.66666, ChangePoints: 33}}, Missing: 4,
	}
}

func known(v float64) score.Estimate { return score.Estimate{Value: v, Low: v, High: v, N: 1} }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; -update writes it (-want +got):\n%s", name, diff)
	}
}

func TestMarkdown(t *testing.T) { golden(t, "results.md", made().Markdown()) }

func TestText(t *testing.T) { golden(t, "results.txt", made().Text()) }

func TestSVG(t *testing.T) {
	picture, err := made().SVG()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "results.svg", picture)
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
	if s := string(picture); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
		t.Error("the picture has NaN or Inf, want numbers")
	}
}

// TestFigures checks that the worst cell decides whether a target is met.
func TestFigures(t *testing.T) {
	text := string(made().Markdown())
	for _, want := range []string{
		"| at most 1 | in 2 of 3 workloads; at worst 50 (0 to 100), bursts 2/s | **missed** | in 0 of 2 workloads; at worst 100 (100 to 100), bursts 0.1/s |",
		"| at most 24 | 2 (2 to 2) | met |",
		"| at least 0.95 | in 1 of 2 workloads; at worst 0.875 (0.75 to 1), bursts 2/s; the best possible in 2 of 2 | **missed** |",
		"| under 5 | in 1 of 2 workloads; at worst 7.5 (4 to 7.5), bursts 2/s; the best possible in 1 of 2 | **missed** |",
		"| at most 0.5 | 0.4 (0.4 to 0.4) | met | 7 (7 to 7) |",
		"| at least 0.85 | 0.9 (0.9 to 0.9) | met |",
		"alerts in 100 loads, cv 0.35 | at most 1 | 1.1 | **missed** | 9.5 |",
		"twice as slow found within 5 loads, cv 0.35 | at least 0.95 | 0.9 (0.9 to 0.9) | **missed** | 0.9 (0.9 to 0.9) |",
		"| none | 1 of 5 | **missed** | 0 of 5 |",
		"| at least 90% | 89.9%, after the first 10 min 90%; at worst 89.9% | **missed** | 50%, after the first 10 min 100%; at worst 50% |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no\n%s", want)
		}
	}
	if t.Failed() {
		before, _, _ := strings.Cut(text, "## Errors")
		t.Log(before)
	}
}

func TestEmpty(t *testing.T) {
	if !new(report.Results).Empty() {
		t.Error("Empty of no results = false, want true")
	}
	if made().Empty() {
		t.Error("Empty of results = true, want false")
	}
	if text := (&report.Results{}).Markdown(); bytes.Contains(text, []byte("\n|")) {
		t.Errorf("got a table without results, want none:\n%s", text)
	}
}
