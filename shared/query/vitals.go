package query

import "time"

// SubjectVitals answers with remembered page loads and baselines.
const SubjectVitals = "query.vitals"

// MaxVitalsPages is how many pages a reply has at most: those loaded last.
const MaxVitalsPages = 50

// VitalsRequest asks for the web vitals of an app's pages.
type VitalsRequest struct {
	// App is exact; empty means all.
	App string `json:"app,omitempty"`
	// Page is exact, as VitalsReply has it; empty means all.
	Page string `json:"page,omitempty"`
}

// VitalsReply answers a VitalsRequest, the page loaded last first.
type VitalsReply struct {
	Pages []PageVitals `json:"pages"`
	// Truncated means that pages or loads were left out because of MaxVitalsPages or MaxReply.
	Truncated bool `json:"truncated,omitempty"`
	Part
}

// PageVitals are the vitals of one page.
type PageVitals struct {
	App string `json:"app"`
	// Page is the path without query, with ids replaced.
	Page string `json:"page"`
	// Baselines are by the name of the vital (lcp_ms). Where the rule distinguishes classes of
	// devices, each has one as well (lcp_ms:mobile), and the one without a class is that of
	// the class with the most loads.
	Baselines map[string]Baseline `json:"baselines"`
	// Loads are those remembered, oldest first.
	Loads []Load `json:"loads"`
}

// Baseline is the usual value of one vital on one page.
type Baseline struct {
	// Median is in milliseconds; CLS has no unit.
	Median float64 `json:"median"`
	// Loads is the sample size of the median, at most 20.
	Loads int `json:"loads"`
}

// Load is one load of a page.
type Load struct {
	// Received is when it arrived on the bus.
	Received time.Time `json:"received"`
	// Values are its vitals by name (lcp_ms).
	Values map[string]float64 `json:"values"`
}
