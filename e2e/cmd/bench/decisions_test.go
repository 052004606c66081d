package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBenchmarks(t *testing.T) {
	const out = `goos: linux
pkg: example.com/a
BenchmarkOffer-2   	  123456	      9012 ns/op	     345 B/op	       6 allocs/op
BenchmarkState     	      10	 100000000 ns/op	    234567 state-bytes
PASS
ok  	example.com/a	1.2s
pkg: example.com/b
BenchmarkOffer-2   	  100	      0.5 ns/op
PASS
`
	want := map[string]float64{
		"example.com/a BenchmarkOffer ns/op": 9012, "example.com/a BenchmarkOffer B/op": 345, "example.com/a BenchmarkOffer allocs/op": 6,
		"example.com/a BenchmarkState ns/op": 1e8, "example.com/a BenchmarkState state-bytes": 234567,
		"example.com/b BenchmarkOffer ns/op": 0.5,
	}
	if diff := cmp.Diff(want, parseBenchmarks([]byte(out))); diff != "" {
		t.Errorf("parseBenchmarks (-want +got):\n%s", diff)
	}
}
