package nab

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// detections returns one value per row, true at some rows.
func detections(rows int, at ...int) []bool {
	detected := make([]bool, rows)
	for _, row := range at {
		detected[row] = true
	}
	return detected
}

// TestScore compares with the formulas of the benchmark, computed by hand: 100 rows, 15 of
// them on probation, with windows of rows 50 to 59 and 80 to 84.
func TestScore(t *testing.T) {
	s := &Series{Values: make([]float64, 100), Windows: []Window{{50, 59}, {80, 84}}}
	at := func(x float64) float64 { return 2/(1+math.Exp(5*x)) - 1 }
	for _, tt := range []struct {
		name     string
		detected []int
		want     [3]float64 // by profile
	}{
		{"nothing", nil, [3]float64{-2, -2, -4}},
		{"both in their first rows", []int{50, 80}, [3]float64{2, 2, 2}},
		{"only the earliest of a window counts", []int{50, 51, 59, 80, 84}, [3]float64{2, 2, 2}},
		// The sixth of ten rows is half way: 2/(1+e^-2.5)-1 = 0.848284, of 0.986614.
		{"half way, and one missed", []int{55}, [3]float64{0.859793 - 1, 0.859793 - 1, 0.859793 - 2}},
		// The last row of ten is at -0.1: 2/(1+e^-0.5)-1 = 0.244919.
		{"in the last row, and one missed", []int{59}, [3]float64{0.248242 - 1, 0.248242 - 1, 0.248242 - 2}},
		{"false before any window", []int{30, 50, 80}, [3]float64{2 - 0.11, 2 - 0.22, 2 - 0.11}},
		{"on probation", []int{0, 14, 50, 80}, [3]float64{2, 2, 2}},
		{"right after probation", []int{15, 50, 80}, [3]float64{2 - 0.11, 2 - 0.22, 2 - 0.11}},
		// One row behind a window of ten is at 1/9: 2/(1+e^(5/9))-1 = -0.270847.
		{"right behind a window", []int{50, 60, 80}, [3]float64{2 - 0.11*0.270847, 2 - 0.22*0.270847, 2 - 0.11*0.270847}},
		// Fifteen rows behind one of five it is beyond 3.
		{"far behind a window", []int{50, 80, 99}, [3]float64{2 - 0.11, 2 - 0.22, 2 - 0.11}},
		{"three false ones", []int{30, 31, 70, 50, 80}, [3]float64{2 + 0.11*(at(11.0/9)-2), 2 + 0.22*(at(11.0/9)-2), 2 + 0.11*(at(11.0/9)-2)}},
	} {
		for i, p := range Profiles() {
			if got := p.Score(s, detections(100, tt.detected...)); math.Abs(got-tt.want[i]) > 1e-6 {
				t.Errorf("%s, %s: %.6f, want %.6f", tt.name, p.Name, got, tt.want[i])
			}
		}
	}
}

// TestScoreOfTheBenchmark has the example of the benchmark's own tests
// (testScoringAllMetrics): two windows of five rows, one found in its first row, one missed,
// and one false detection three rows behind, with weights of 1.
func TestScoreOfTheBenchmark(t *testing.T) {
	s := &Series{Values: make([]float64, 100), Windows: []Window{{40, 44}, {70, 74}}}
	got := Profile{Found: 1, FalseOnes: 1, NotFound: 1}.Score(s, detections(100, 40, 41, 47))
	if math.Abs(got+0.9540) > 5e-5 {
		t.Errorf("Score = %.4f, want -0.9540", got)
	}
}

func TestScoreOfOneRow(t *testing.T) {
	s := &Series{Values: make([]float64, 10), Windows: []Window{{5, 5}}}
	for detected, want := range map[int]float64{5: 1, 6: -1.11, 4: -1.11} {
		if got := Profiles()[0].Score(s, detections(10, detected)); math.Abs(got-want) > 1e-9 {
			t.Errorf("detected in row %d: Score = %v, want %v", detected, got, want)
		}
	}
}

// TestProbation checks 15%, rounded down, of 5,000 rows at most.
func TestProbation(t *testing.T) {
	for rows, want := range map[int]int{0: 0, 6: 0, 7: 1, 100: 15, 4032: 604, 5000: 750, 22695: 750} {
		if got := Probation(rows); got != want {
			t.Errorf("Probation(%d) = %d, want %d", rows, got, want)
		}
	}
}

// TestNormalised checks that no detections give 0, all in time 100, and many false ones less
// than 0. Of 20 rows 3 are on probation.
func TestNormalised(t *testing.T) {
	corpus := []Series{
		{Values: make([]float64, 20), Windows: []Window{{10, 13}}},
		{Values: make([]float64, 20)},
	}
	for _, tt := range []struct {
		name         string
		first, other []int
		want         [3]float64
	}{
		{"nothing", nil, nil, [3]float64{0, 0, 0}},
		{"perfect", []int{10}, nil, [3]float64{100, 100, 100}},
		// One false one: 100 (1 - w + n) / (1 + n) for weights w and n.
		{"one false", []int{10}, []int{7}, [3]float64{100 * 1.89 / 2, 100 * 1.78 / 2, 100 * 2.89 / 3}},
		{"only false", nil, []int{3, 4, 5}, [3]float64{-100 * 0.33 / 2, -100 * 0.66 / 2, -100 * 0.33 / 3}},
	} {
		for i, p := range Profiles() {
			got := p.Normalised(corpus, [][]bool{detections(20, tt.first...), detections(20, tt.other...)})
			if math.Abs(got-tt.want[i]) > 1e-9 {
				t.Errorf("%s, %s: %v, want %v", tt.name, p.Name, got, tt.want[i])
			}
		}
	}
}

const rows = `timestamp,value
2014-04-01 00:00:00,20.5
2014-04-01 00:05:00,-1
2014-04-01 00:10:00,3e2
`

func corpus(windows, data string) fstest.MapFS {
	return fstest.MapFS{
		"labels/combined_windows.json": {Data: []byte(windows)},
		"data/real/cpu.csv":            {Data: []byte(data)},
	}
}

func TestRead(t *testing.T) {
	got, err := Read(corpus(`{"real/cpu.csv": [["2014-04-01 00:05:00.000000", "2014-04-01 00:10:00.000000"]]}`, rows))
	want := []Series{{Name: "real/cpu.csv", Values: []float64{20.5, -1, 300}, Windows: []Window{{1, 2}}}}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Read (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	const none = `{"real/cpu.csv": []}`
	for _, tt := range []struct{ name, windows, data, say string }{
		{"no labels of the form", `[]`, rows, "combined_windows"},
		{"half a window", `{"real/cpu.csv": [["2014-04-01 00:05:00"]]}`, rows, "1 times"},
		{"backwards", `{"real/cpu.csv": [["2014-04-01 00:05:00", "2014-04-01 00:00:00"]]}`, rows, "back to"},
		{"not among the rows", `{"real/cpu.csv": [["2014-04-01 00:05:01", "2014-04-01 00:10:00"]]}`, rows, "no rows"},
		{"overlapping", `{"real/cpu.csv": [["2014-04-01 00:00:00", "2014-04-01 00:05:00"], ["2014-04-01 00:05:00", "2014-04-01 00:10:00"]]}`, rows, "no rows"},
		{"not a time", `{"real/cpu.csv": [["yesterday", "2014-04-01 00:00:00"]]}`, rows, "yesterday"},
		{"out of the folder", `{"../../etc/passwd": []}`, rows, "no path"},
		{"a file that is not there", `{"real/mem.csv": []}`, rows, "real/mem.csv"},
		{"another header", none, "a,b\n", "want timestamp,value"},
		{"no header", none, "", "header"},
		{"no value", none, rows + "2014-04-01 00:15:00\n", "line 5"},
		{"no number", none, rows + "2014-04-01 00:15:00,NaN\n", "line 5"},
		{"no timestamp", none, rows + "now,1\n", "line 5"},
	} {
		_, err := Read(corpus(tt.windows, tt.data))
		if err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: error = %v, want %q in it", tt.name, err, tt.say)
		}
	}
}

func FuzzRows(f *testing.F) {
	f.Add([]byte(rows))
	f.Add([]byte("timestamp,value\n\"2014-04-01 00:00:00\",1e400\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		times, values, err := parseRows(bytes.NewReader(data))
		if err != nil {
			return
		}
		if len(times) != len(values) {
			t.Errorf("got %d times and %d values, want as many", len(times), len(values))
		}
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("got the value %v, want a number", v)
			}
		}
	})
}

func FuzzWindows(f *testing.F) {
	f.Add([]byte(`{"real/cpu.csv": [["2014-04-01 00:05:00.000000", "2014-04-01 00:10:00.000000"]], "b.csv": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		windows, err := parseWindows(data)
		if err != nil {
			return
		}
		for name, spans := range windows {
			for i, s := range spans {
				if s.to.Before(s.from) || i > 0 && s.from.Before(spans[i-1].from) {
					t.Errorf("%s: got windows %v, want them sorted, with ends after starts", name, spans)
				}
			}
		}
	})
}
