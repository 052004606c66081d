package gateway

import "github.com/tocsin-bus/tocsin/shared/query"

// maxShownOrigins is how many origins observe status names.
const maxShownOrigins = 10

// refusedOrigins are pages of other sites that intakes refused, and the setting that
// lets them in.
type refusedOrigins struct {
	Setting string                `json:"setting"`
	Origins []query.RefusedOrigin `json:"origins"`
	// More is how many origins are left out.
	More int `json:"more,omitempty"`
}

// refusedBy is what intakes say, as a client is shown it.
func (g *gateway) refusedBy(intakes []query.Health) *refusedOrigins {
	all := refusedOrigins{Setting: "TOCSIN_ALLOWED_ORIGINS"}
	for _, intake := range intakes {
		if intake.Ingest == nil {
			continue
		}
		for _, refused := range intake.Ingest.RefusedOrigins {
			if len(all.Origins) == maxShownOrigins {
				all.More++
				continue
			}
			refused.Origin = g.shown(refused.Origin)
			all.Origins = append(all.Origins, refused)
		}
	}
	if len(all.Origins) == 0 {
		return nil
	}
	return &all
}
