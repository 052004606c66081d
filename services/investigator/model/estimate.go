package model

// bytesPerToken is the estimate for text that no provider has counted.
const bytesPerToken = 4

// Estimate returns about how many tokens a request has: its bytes by 4.
func Estimate(r Request) int {
	n := len(r.System)
	for i := range r.Messages {
		m := &r.Messages[i]
		n += len(m.Role) + len(m.Text) + len(m.CallID) + len(m.ToolName) + len(m.State)
		for _, c := range m.Calls {
			n += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return EstimateBytes(n)
}

// EstimateBytes returns about how many tokens a text of n bytes has.
func EstimateBytes(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }
