package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

const (
	inboxPackage    = "github.com/tocsin-bus/tocsin/services/gateway/inbox"
	notifierPackage = "github.com/tocsin-bus/tocsin/services/gateway/notifier"
)

// benchmarks are those of the gateway's pure packages that make bench shows.
var benchmarks = []struct{ what, asked, pkg, name, unit string }{
	{"alert offered to a full inbox", "< 0.1 ms", inboxPackage, "BenchmarkOffer", "ns/op"},
	{"take from an inbox of 50", "< 1 ms", inboxPackage, "BenchmarkTake50", "ns/op"},
	{"decision of a notifier, 500 keys and 100 pending", "< 0.1 ms", notifierPackage, "BenchmarkOffer", "ns/op"},
	{"state of a notifier with 500 keys and 100 pending", "< 500 KB", notifierPackage, "BenchmarkState", "state-bytes"},
}

// decisions runs the benchmarks of the gateway's pure packages.
func decisions(ctx context.Context, _ string, _ int) ([]harness.Figure, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^(BenchmarkOffer|BenchmarkTake50|BenchmarkState)$", inboxPackage, notifierPackage)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run the benchmarks of the gateway: %w\n%s", err, out)
	}
	measured := parseBenchmarks(out)
	figures := make([]harness.Figure, 0, len(benchmarks))
	for _, b := range benchmarks {
		value, ok := measured[b.pkg+" "+b.name+" "+b.unit]
		if !ok {
			return nil, fmt.Errorf("%s of %s printed no %s:\n%s", b.name, b.pkg, b.unit, out)
		}
		f := harness.Figure{What: b.what, Asked: b.asked, Measured: fmt.Sprintf("%.0f KB", value/1000)}
		if b.unit == "ns/op" {
			f.Measured = fmt.Sprintf("mean %s", harness.Rounded(time.Duration(value)))
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// parseBenchmarks returns the values that go test -bench printed, by package, name
// without the number of processors, and unit.
func parseBenchmarks(out []byte) map[string]float64 {
	values := map[string]float64{}
	pkg := ""
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "pkg: "); ok {
			pkg = name
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(fields[0], "-")
		for i := 2; i+1 < len(fields); i += 2 { // after the name and the number of rounds
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				values[pkg+" "+name+" "+fields[i+1]] = value
			}
		}
	}
	return values
}
