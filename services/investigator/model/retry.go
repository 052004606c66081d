package model

import "time"

// Retry is the policy of repeated requests to one provider.
type Retry struct {
	// Tries is the number of requests in all.
	Tries int
	// Wait is the time before the second request. It doubles with each further one.
	Wait time.Duration
	// Spread is the share by which a wait varies in both directions.
	Spread float64
	// MaxRetryAfter is the longest time that the provider may ask to wait. For a longer one the
	// next provider is asked.
	MaxRetryAfter time.Duration
}

// DefaultRetry returns three tries with waits of 1 s and 2 s, varied by 20%.
func DefaultRetry() Retry {
	return Retry{Tries: 3, Wait: time.Second, Spread: 0.2, MaxRetryAfter: 30 * time.Second}
}

// Verdict is what follows a failed request.
type Verdict string

// The verdicts.
const (
	// Again means that the same provider is asked again after the wait.
	Again Verdict = "again"
	// Later means that the provider asks to wait for longer than Retry.MaxRetryAfter. The next
	// provider is asked at once; without one, the caller asks the same after the wait.
	Later Verdict = "later"
	// GiveUp means that the same provider is not asked again: it refused, or all tries failed.
	GiveUp Verdict = "give up"
)

// Next decides what follows the failure of a request. Attempt counts from 0, and random is in
// [0, 1). A wait that the provider asks for is never shortened.
func (r Retry) Next(attempt int, err *Error, random float64) (time.Duration, Verdict) {
	switch {
	case !err.Retry():
		return 0, GiveUp
	case err.RetryAfter > r.MaxRetryAfter:
		return err.RetryAfter, Later
	case attempt+1 >= r.Tries:
		return 0, GiveUp
	case err.RetryAfter > 0:
		return err.RetryAfter, Again
	}
	wait := float64(r.Wait) * float64(uint64(1)<<min(attempt, 32))
	return time.Duration(wait * (1 + r.Spread*(2*random-1))), Again
}
