package ratetail

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"unsafe"
)

var grid = func() (all []predictive) {
	for _, mean := range []float64{0.01, 0.2, 1, 5, 20, 200, 5000} {
		for _, excess := range []float64{0.0023, 0.023, 0.5, 8, 100} {
			all = append(all, predictive{mean: mean, excess: excess})
		}
	}
	return all
}()

// summed returns the logarithm of the tail, summed term by term with 300 bits.
func summed(d predictive, k int) float64 {
	const bits = 300
	float := func(v float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(v) }
	r, x := d.mean/d.excess, new(big.Float).Quo(float(d.excess), float(1+d.excess))
	// The probability of 0 is y^r. Its exponent to base 2 is added separately, because it
	// may be out of the range of a float64.
	power := r * -math.Log1p(d.excess) / math.Ln2
	term := new(big.Float).SetMantExp(float(math.Exp2(power-math.Floor(power))), int(math.Floor(power)))
	sum := float(0)
	for i := 0; ; i++ {
		if i >= k {
			sum.Add(sum, term)
			if float64(i) > d.mean && new(big.Float).Quo(term, sum).Cmp(float(1e-18)) < 0 {
				break
			}
		}
		term.Mul(term, x)
		term.Mul(term, float(r+float64(i)))
		term.Quo(term, float(float64(i+1)))
	}
	mantissa := new(big.Float)
	exponent := sum.MantExp(mantissa)
	m, _ := mantissa.Float64()
	return math.Log(m) + float64(exponent)*math.Ln2
}

func TestTailIsExact(t *testing.T) {
	for _, d := range grid {
		for _, off := range []float64{-1, 0, 1, 3, 5, 8, 15} {
			k := int(math.Round(d.mean + off*d.deviation()))
			if k < 1 {
				continue
			}
			got, want := d.logTail(float64(k)), summed(d, k)
			if math.Abs(got-want) > 1e-8*max(1, math.Abs(want)) {
				t.Errorf("%+v, %d or more: ln p = %.12g, want %.12g", d, k, got, want)
			}
		}
	}
	if got := (predictive{mean: 0, excess: 1}).logTail(1); !math.IsInf(got, -1) {
		t.Errorf("tail of an error with mean 0 = %v, want -Inf", got)
	}
}

// TestThreshold checks that the threshold is the smallest count with such a tail, and that
// no count up to floor has one.
func TestThreshold(t *testing.T) {
	for _, d := range append(grid, predictive{mean: 1e7, excess: 0.02}, predictive{mean: 1e7, excess: 1000}) {
		floor := d.floor()
		if floor >= minSpike && d.logTail(float64(floor)) < maxLogP {
			t.Errorf("%+v: the floor %d has a tail of %.2g, want at least %.2g", d, floor, math.Exp(d.logTail(float64(floor))), math.Exp(maxLogP))
		}
		for _, logP := range []float64{maxLogP, math.Log(1e-6), math.Log(1e-12)} {
			k := d.threshold(logP)
			if d.logTail(float64(k)) >= logP || k > floor+1 && d.logTail(float64(k-1)) < logP {
				t.Errorf("%+v: threshold for %g = %d with tail %g, one less has %g; want the first under it", d, math.Exp(logP), k,
					math.Exp(d.logTail(float64(k))), math.Exp(d.logTail(float64(k-1))))
			}
		}
	}
}

// TestSizes checks the constants with the sizes of the types.
func TestSizes(t *testing.T) {
	if got := unsafe.Sizeof(Small{}); got > SmallSize {
		t.Errorf("a Small takes %d bytes, want at most SmallSize = %d", got, SmallSize)
	}
	if got := unsafe.Sizeof(Counter{}); got > counterSize || got < counterSize-128 {
		t.Errorf("a Counter takes %d bytes, want %d to counterSize = %d", got, counterSize-128, counterSize)
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{formatProbability(math.Log(2e-9)), "= 2e-9"}, {formatProbability(math.Log(9.7e-7)), "= 1e-6"}, {formatProbability(math.Log(0.04)), "= 4e-2"},
		{formatProbability(-800), "< 1e-300"}, {formatProbability(math.Inf(-1)), "< 1e-300"}, {formatProbability(0), "= 1"},
		{formatFigure(1.3), "1.3"}, {formatFigure(0.0123), "0.012"}, {formatFigure(0.5), "0.5"}, {formatFigure(2), "2"}, {formatFigure(19.6), "20"}, {formatFigure(0), "0"}, {formatFigure(1234.5), "1234"},
		{formatSpan(45), "45 s"}, {formatSpan(61), "1 min"}, {formatSpan(298), "5 min"}, {formatSpan(90), "1 min 30 s"}, {formatSpan(903.5), "15 min"},
		{formatSpan(3595), "1 h"}, {formatSpan(5400), "1 h 30 min"}, {formatSpan(86_390), "24 h"}, {formatSpan(0), "0 s"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func BenchmarkThreshold(b *testing.B) {
	for _, mean := range []float64{0.5, 20, 1e4, 1e7} {
		b.Run(fmt.Sprint(mean), func(b *testing.B) {
			d := predictive{mean: mean, excess: 0.02}
			for b.Loop() {
				d.threshold(math.Log(1e-6))
			}
		})
	}
}
