package fold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// full returns a fold near its bound of memory: 100 apps with many pages, errors and
// templates, and full stores of CI results, external alerts and storm keys.
func full() *fold.Fold {
	f := fold.New(fold.Config{Rules: everything})
	for i := range 10_000 {
		f.Apply(fold.Message{Seq: uint64(i + 1), Time: start.Add(time.Duration(i) * 10 * time.Millisecond), Events: traffic(fmt.Sprint("app", i%100), i)})
	}
	return f
}

// BenchmarkSnapshot measures a snapshot of a full fold in which every app has changed.
func BenchmarkSnapshot(b *testing.B) {
	f, seq := full(), uint64(20_000)
	touched := make([]telemetry.Event, 100)
	for i := range touched {
		touched[i] = clicked("#pay")
		touched[i].App = fmt.Sprint("app", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		seq++
		f.Apply(fold.Message{Seq: seq, Time: start.Add(time.Duration(seq) * 10 * time.Millisecond), Events: touched})
		b.StartTimer()
		state, err := f.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(state)), "bytes")
	}
}

// BenchmarkRestore measures reading the snapshot of a full fold.
func BenchmarkRestore(b *testing.B) {
	state, err := full().Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := fold.New(fold.Config{Rules: everything}).Restore(state); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(state)), "bytes")
}
