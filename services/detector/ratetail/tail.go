package ratetail

import "math"

// predictive is a negative binomial distribution, given by its mean and by how much its
// variance exceeds its mean, per mean: variance = mean * (1 + excess). If a errors came one
// by one (Poisson) in b seconds, the next w seconds have the mean w*a/b and the excess w/b:
// the Gamma-Poisson form. Errors that come in clusters add to the excess.
type predictive struct{ mean, excess float64 }

// deviation is the standard deviation.
func (d predictive) deviation() float64 { return math.Sqrt(d.mean * (1 + d.excess)) }

// logTail returns the natural logarithm of the probability of k or more, for k of at least
// 1 and an excess above 0: the regularized incomplete beta function I_x(k, r) with r =
// mean/excess and x = excess/(1+excess), by its continued fraction (Numerical Recipes,
// 6.4), so that no tail is too small for it.
func (d predictive) logTail(k float64) float64 {
	if d.mean <= 0 {
		return math.Inf(-1)
	}
	r, grown := d.mean/d.excess, math.Log1p(d.excess)
	logX, logY := math.Log(d.excess)-grown, -grown
	x, y := d.excess/(1+d.excess), 1/(1+d.excess)
	front := logGamma(k+r) - logGamma(k) - logGamma(r) + k*logX + r*logY
	if x < (k+1)/(k+r+2) {
		return front + math.Log(betaFraction(k, r, x)/k)
	}
	return math.Log1p(-math.Exp(front + math.Log(betaFraction(r, k, y)/r)))
}

// logMass returns the natural logarithm of the probability of k, without a part that is the
// same in all predictives.
func (d predictive) logMass(k float64) float64 {
	r, grown := d.mean/d.excess, math.Log1p(d.excess)
	mass := -r * grown
	if k > 0 {
		mass += logGamma(k+r) - logGamma(r) + k*(math.Log(d.excess)-grown)
	}
	return mass
}

func logGamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}

// maxTerms bounds the continued fraction. It needs about the square root of the larger
// argument, and far less where the tail is small: at 10 million errors in the window, a
// thousand.
const maxTerms = 20_000

// betaFraction returns the continued fraction of the incomplete beta function.
func betaFraction(a, b, x float64) float64 {
	const tiny, enough = 1e-300, 1e-14
	nonZero := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/nonZero(1-(a+b)*x/(a+1))
	h := d
	for i := 1; i <= maxTerms; i++ {
		m := float64(i)
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d, c = 1/nonZero(1+even*d), nonZero(1+even/c)
		h *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d, c = 1/nonZero(1+odd*d), nonZero(1+odd/c)
		h *= d * c
		if math.Abs(d*c-1) < enough {
			break
		}
	}
	return h
}

// A count up to clearDeviations deviations over the mean is never a spike: a negative
// binomial is skewed to the right, so its tail there is more than the 1.3 in 1000 of a
// normal distribution, and shares are less.
const clearDeviations = 3

// floor returns the largest count whose tail need not be computed.
func (d predictive) floor() int64 {
	return max(minSpike-1, int64(d.mean+clearDeviations*d.deviation()))
}

// threshold returns the smallest count over floor whose tail has a logarithm under logP.
// It doubles a bracket, then halves it.
func (d predictive) threshold(logP float64) int64 {
	low := d.floor() // no spike
	step := max(1, int64(d.deviation()))
	high := low + step
	for d.logTail(float64(high)) >= logP {
		low, step = high, 2*step
		high = low + step
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		if d.logTail(float64(middle)) < logP {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
