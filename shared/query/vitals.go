package query

import "time"

// SubjectVitals answers with the loads that are remembered and what is usual.
const SubjectVitals = "query.vitals"

// MaxVitalsPages is how many pages a reply has at most, those loaded last.
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
	// Truncated says that MaxVitalsPages or MaxReply left pages or loads out.
	Truncated bool `json:"truncated,omitempty"`
	Part
}

// PageVitals is what is known of one page.
type PageVitals struct {
	App string `json:"app"`
	// Page is the path without query, with ids replaced.
	Page string `json:"page"`
	// Baselines are what is usual now, by the name of the vital (lcp_ms). Where the
	// rule keeps classes of devices apart there is one for each (lcp_ms:mobile) as
	// well, and that without a class is the one of the most loads.
	Baselines map[string]Baseline `json:"baselines"`
	// Loads are those remembered, oldest first.
	Loads []Load `json:"loads"`
}

// Baseline is what is usual of one vital on one page.
type Baseline struct {
	// Median is in milliseconds, for cls in its own unit.
	Median float64 `json:"median"`
	// Loads is how many loads it is the median of, at most 20.
	Loads int `json:"loads"`
}

// Load is one load of a page.
type Load struct {
	// Received is the bus's stamp of its arrival.
	Received time.Time `json:"received"`
	// Values are the vitals that it had, by name (lcp_ms).
	Values map[string]float64 `json:"values"`
}
