package worker

import (
	"sync"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// Clients are the clients of llm_providers by their names. It implements [Models]. The zero value
// has none. It is safe for concurrent use.
type Clients struct {
	mu      sync.Mutex
	clients map[string]*model.Client
}

// Replace replaces all clients, as after a change of the configuration. Calls under way go on
// with the clients that they have.
func (c *Clients) Replace(clients map[string]*model.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = clients
}

// Model implements [Models].
func (c *Clients) Model(provider session.Provider, last bool) (Model, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client, ok := c.clients[provider.Name]
	if !ok {
		return nil, false
	}
	if last {
		client = client.WithLongWaits()
	}
	return client, true
}
