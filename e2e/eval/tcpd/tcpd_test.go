package tcpd

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func series(n int, annotations ...[]int) *Series {
	return &Series{Values: [][]float64{make([]float64, n)}, Annotations: annotations}
}

// TestF1 begins with the examples of the paper's own program (TCPDBench, f_measure). The
// others are computed by hand.
func TestF1(t *testing.T) {
	for _, tt := range []struct {
		name        string
		annotations [][]int
		found       []int
		want        float64
	}{
		{"all found", [][]int{{10, 20}, {11, 20}, {10}, {0, 5}}, []int{10, 20}, 1},
		{"one of two", [][]int{{}, {10}, {50}}, []int{10}, 0.9090909090909091},
		{"nothing found", [][]int{{}, {10}, {50}}, nil, 0.8},
		// Precision 2/2, recall (1 + 2/2)/2.
		{"off by the margin", [][]int{{}, {20}}, []int{25}, 1},
		// Precision 1/2, recall (1 + 1/2)/2 = 3/4: 2*0.375/1.25.
		{"off by more", [][]int{{}, {20}}, []int{26}, 0.6},
		// Two found near one that is true: precision 2/3, recall 1.
		{"found twice", [][]int{{20}}, []int{19, 21}, 0.8},
		// 20 takes 21, which is nearer than 17, and 23 then has none left but 17: too far.
		{"the nearest is taken", [][]int{{20, 23}}, []int{17, 21}, 2.0 / 3},
		{"the beginning among those found", [][]int{{20}}, []int{0, 20}, 1},
	} {
		if got := F1(series(100, tt.annotations...), tt.found); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: F1 = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestCovering begins with the examples of the paper's own program (TCPDBench,
// covering).
func TestCovering(t *testing.T) {
	for _, tt := range []struct {
		name        string
		n           int
		annotations [][]int
		found       []int
		want        float64
	}{
		{"the first example", 45, [][]int{{10, 20}, {10}, {0, 5}}, []int{10, 20}, 0.7962962962962963},
		{"the second", 45, [][]int{{}, {10}, {40}}, []int{10}, 0.7954144620811286},
		{"the third", 45, [][]int{{}, {10}, {40}}, nil, 0.8189300411522634},
		{"all found", 30, [][]int{{10, 20}}, []int{10, 20}, 1},
		// One segment of 30 for segments of 10 and 20: 10/30*10/30 + 20/30*20/30.
		{"nothing found", 30, [][]int{{10}}, nil, 5.0 / 9},
		{"found in no order, and twice", 30, [][]int{{10, 20}}, []int{20, 10, 20}, 1},
	} {
		if got := Covering(series(tt.n, tt.annotations...), tt.found); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: Covering = %v, want %v", tt.name, got, tt.want)
		}
	}
}

const steps = `{"name":"steps","n_obs":4,"n_dim":2,"time":{"index":[0,1,2,3]},
 "series":[{"label":"a","type":"int","raw":[1,2,null,4]},{"label":"b","type":"float","raw":[0.5,-1,2e3,0]}]}`

func dataset(annotations, data string) fstest.MapFS {
	return fstest.MapFS{"annotations.json": {Data: []byte(annotations)}, "datasets/steps/steps.json": {Data: []byte(data)}}
}

func TestRead(t *testing.T) {
	got, missing, err := Read(dataset(`{"steps":{"7":[3,1],"10":[]},"apple":{"6":[319]}}`, steps))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apple"}, missing); diff != "" {
		t.Errorf("missing series (-want +got):\n%s", diff)
	}
	want := []Series{{Name: "steps", Values: [][]float64{{1, 2, math.NaN(), 4}, {0.5, -1, 2000, 0}}, Annotations: [][]int{{}, {1, 3}}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	const one = `{"steps":{"7":[1]}}`
	for _, tt := range []struct{ name, annotations, data, say string }{
		{"no annotations of the form", `[]`, steps, "annotations.json"},
		{"no annotators", `{"steps":{}}`, steps, "no annotators"},
		{"before the beginning", `{"steps":{"7":[-1]}}`, steps, "-1"},
		{"behind the end", `{"steps":{"7":[4]}}`, steps, "4 of 4"},
		{"out of the folder", `{"../x":{"7":[1]}}`, steps, "no name"},
		{"deeper in the folder", `{"a/b":{"7":[1]}}`, steps, "no name"},
		{"another length", one, strings.Replace(steps, `"n_obs":4`, `"n_obs":5`, 1), "n_obs is 5"},
		{"no dimension", one, `{"n_obs":4,"series":[]}`, "no dimension"},
		{"no observation", one, `{"n_obs":0,"series":[{"raw":[]}]}`, "0 observations"},
		{"no JSON", one, `{`, "steps"},
	} {
		_, _, err := Read(dataset(tt.annotations, tt.data))
		if err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: error = %v, want %q in it", tt.name, err, tt.say)
		}
	}
}

func FuzzAnnotations(f *testing.F) {
	f.Add([]byte(`{"steps":{"7":[3,1],"10":[]},"apple":{"6":[319]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseAnnotations(data)
		if err != nil {
			return
		}
		for name, people := range all {
			for _, points := range people {
				for i, p := range points {
					if p < 0 || i > 0 && p < points[i-1] {
						t.Errorf("%s: got change points %v, want them sorted and not negative", name, points)
					}
				}
			}
		}
	})
}

func FuzzSeries(f *testing.F) {
	f.Add([]byte(steps))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := parseSeries(data)
		if err != nil {
			return
		}
		for _, dimension := range all {
			if len(dimension) != len(all[0]) || len(dimension) == 0 {
				t.Errorf("got dimensions of %d and %d observations, want one length over 0", len(dimension), len(all[0]))
			}
		}
	})
}

// FuzzScores checks that both measures lie between 0 and 1, and are 1 if exactly the change
// points of the person were found.
func FuzzScores(f *testing.F) {
	f.Add([]byte{10, 20, 30}, []byte{11, 90})
	f.Fuzz(func(t *testing.T, annotation, found []byte) {
		points := func(raw []byte) (all []int) {
			for _, b := range raw {
				all = append(all, int(b))
			}
			return all
		}
		s := series(256, points(annotation))
		if f1, c := F1(s, points(found)), Covering(s, points(found)); !(f1 > 0 && f1 <= 1+1e-9) || !(c > 0 && c <= 1+1e-9) {
			t.Errorf("F1 = %v, Covering = %v, want both over 0 and at most 1", f1, c)
		}
		if f1, c := F1(s, points(annotation)), Covering(s, points(annotation)); math.Abs(f1-1) > 1e-9 || math.Abs(c-1) > 1e-9 {
			t.Errorf("of the same change points: F1 = %v, Covering = %v, want 1", f1, c)
		}
	})
}
