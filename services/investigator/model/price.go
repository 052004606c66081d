package model

// Price is what a provider charges, in USD per million tokens.
type Price struct {
	Input       float64 `json:"input"`
	CachedInput float64 `json:"cached_input"`
	Output      float64 `json:"output"`
}

// Cost returns what a usage costs, in USD.
func (p Price) Cost(u Usage) float64 {
	const million = 1e6
	return (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*p.CachedInput + float64(u.Output)*p.Output) / million
}
