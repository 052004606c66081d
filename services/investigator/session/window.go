package session

// The bounds of what a model is shown.
const (
	// bytesPerToken is the estimate where the provider did not count.
	bytesPerToken = 4
	// maxResultTokens is the most that a model is shown of one result, and resultShare the
	// share of its window in percent: the smaller one holds.
	maxResultTokens = 25_000
	resultShare     = 15
)
