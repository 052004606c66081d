package investigator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const (
	// probeTimeout bounds the request to one provider.
	probeTimeout = 30 * time.Second
	// maxProbes is the number of providers that are asked at once.
	maxProbes = 8
	// probeTokens is the number of tokens that a provider is asked for. OpenAI's Responses accepts
	// no less than probeResponsesTokens.
	probeTokens          = 1
	probeResponsesTokens = 16
)

// probed is what the providers and servers of a file answered, by their names.
type probed struct {
	models  map[string]modelProbe
	servers map[string]serverProbe
}

// modelProbe is the answer of a provider.
type modelProbe struct {
	duration time.Duration
	// err is why there is no answer, without the key; or empty.
	err string
}

func (m modelProbe) String() string {
	if m.err != "" {
		return "error     " + m.err
	}
	return "answered  after " + m.duration.Round(time.Millisecond).String()
}

// serverProbe is the answer of a server.
type serverProbe struct {
	toolbox.Status
	// leftOut are tools that were not read.
	leftOut []string
}

func (p *probed) all() int { return len(p.models) + len(p.servers) }

func (p *probed) failed() int {
	n := 0
	for _, m := range p.models {
		if m.err != "" {
			n++
		}
	}
	for _, s := range p.servers {
		if !s.Healthy {
			n++
		}
	}
	return n
}

// probe starts the servers of a file once, and asks its providers, all side by side.
func probe(ctx context.Context, s *settings) (*probed, error) {
	found := &probed{models: map[string]modelProbe{}, servers: map[string]serverProbe{}}
	registry := toolbox.NewRegistry(s.registered())
	var servers sync.WaitGroup
	servers.Go(func() { registry.Check(ctx) })
	var mu sync.Mutex
	var models errgroup.Group
	models.SetLimit(maxProbes)
	for _, name := range slices.Sorted(maps.Keys(s.config.Providers)) {
		models.Go(func() error {
			m := probeModel(ctx, name, s.config.Providers[name], s.config.Key(name))
			mu.Lock()
			defer mu.Unlock()
			found.models[name] = m
			return nil
		})
	}
	err := models.Wait()
	servers.Wait()
	if ctx.Err() != nil {
		err = errors.New("interrupted before all providers and servers answered")
	}
	for _, status := range registry.Statuses() {
		found.servers[status.ID] = serverProbe{Status: status}
	}
	for _, w := range registry.Warnings() {
		if w.Category == toolbox.CategoryLeftOut {
			server := found.servers[w.ServerID]
			server.leftOut = append(server.leftOut, w.Message+": "+w.Details)
			found.servers[w.ServerID] = server
		}
	}
	return found, err
}

// probeModel asks a provider for one token, once.
func probeModel(ctx context.Context, name string, p *config.Provider, key string) modelProbe {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	start := time.Now()
	err := askOnce(ctx, name, p, key)
	if err == nil {
		return modelProbe{duration: time.Since(start)}
	}
	if ctx.Err() != nil {
		return modelProbe{err: fmt.Sprintf("no answer within %s", probeTimeout)}
	}
	text := err.Error()
	if key != "" {
		text = strings.ReplaceAll(text, key, redact.Mask)
	}
	return modelProbe{err: redact.New().String(text)}
}

func askOnce(ctx context.Context, name string, p *config.Provider, key string) error {
	m, err := newModel(name, p, key)
	if err != nil {
		return err
	}
	tokens := probeTokens
	if p.Type == "openai" && !p.UsesChat() {
		tokens = probeResponsesTokens
	}
	request := model.Request{
		System:          "Answer with one word.",
		Messages:        []model.Message{{Role: model.RoleUser, Text: "Are you there?"}},
		MaxOutputTokens: tokens,
	}
	for chunk, err := range m.Generate(ctx, request) {
		if err != nil {
			return err
		}
		if chunk.Done != nil {
			return nil
		}
	}
	return errors.New("the stream ended before the answer did")
}
