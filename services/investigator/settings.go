package investigator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/masking"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/model/anthropic"
	"github.com/tocsin-bus/tocsin/services/investigator/model/openai"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/services/investigator/worker"
)

// settings is what a configuration file leads to. It is read-only. It implements [worker.Models].
type settings struct {
	config *config.Config
	// mask masks the texts of alerts. Those of a session are masked as its plan says.
	mask func(string) string
	// models and servers have the entries of the file by name.
	models  map[string]clients
	servers map[string]toolbox.Server
	// current are the entries of the file, and earlier those that it had before, the newest first:
	// sessions that run keep theirs.
	current, earlier []definition
	// definitions has both, as a plan names them.
	definitions map[string]definition
}

// definition is an entry of the file: a provider or a server.
type definition struct {
	entry  config.Entry
	models clients
	server toolbox.Server
}

// maxEarlier is how many entries are kept that the file has no more. A session with one that was
// forgotten goes on with the entry of the same name.
const maxEarlier = 200

// clients are those of one entry of llm_providers.
type clients struct {
	// last waits as long as the provider asks, because there is no fallback.
	first, last *model.Client
	breaker     *model.Breaker
}

// newSettings makes the settings of a file. They keep the key of the old ones, which may be nil.
// Entries that stand in old as they do in the file keep their breakers.
func newSettings(cfg *config.Config, old *settings) (*settings, error) {
	if old != nil {
		cfg = cfg.WithDefinitionKey(old.config.DefinitionKey())
	}
	s := &settings{config: cfg, models: map[string]clients{}, servers: map[string]toolbox.Server{}}
	var failed []error
	masker, err := masking.New(masking.Config{Groups: cfg.MaskingGroups()})
	if err != nil {
		return nil, fmt.Errorf("%s: defaults.alert_masking: %w", cfg.Name(), err)
	}
	s.mask = masker.Mask
	for _, name := range slices.Sorted(maps.Keys(cfg.Providers)) {
		p := cfg.Providers[name]
		m, err := newModel(name, p, cfg.Key(name))
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: llm_providers.%s: %w", cfg.Name(), name, err))
			continue
		}
		retry := model.DefaultRetry()
		retry.Tries = p.Retries
		breaker := old.breaker(cfg.ProviderEntry(name))
		client := model.NewClient(m, retry, breaker)
		s.models[name] = clients{client, client.WithLongWaits(), breaker}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Servers)) {
		server, err := newServer(name, cfg.Servers[name], cfg.ServerSecrets(name))
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: mcp_servers.%s: %w", cfg.Name(), name, err))
			continue
		}
		s.servers[name] = server
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	s.define(old)
	return s, nil
}

// breaker returns the breaker of an entry of a provider, or a closed one where s, which may be nil,
// does not know it: what failed with other settings says nothing about these.
func (s *settings) breaker(entry config.Entry) *model.Breaker {
	if s != nil {
		for _, d := range slices.Concat(s.current, s.earlier) {
			if d.entry == entry && d.models.breaker != nil {
				return d.models.breaker
			}
		}
	}
	return &model.Breaker{}
}

// define collects the definitions of the file, and keeps those of the old settings, which may be nil.
func (s *settings) define(old *settings) {
	known := map[config.Entry]bool{}
	for name, m := range s.models {
		s.current = append(s.current, definition{entry: s.config.ProviderEntry(name), models: m})
	}
	for name, server := range s.servers {
		s.current = append(s.current, definition{entry: s.config.ServerEntry(name), server: server})
	}
	for _, d := range s.current {
		known[d.entry] = true
	}
	if old != nil {
		for _, d := range slices.Concat(old.current, old.earlier) {
			if !known[d.entry] && len(s.earlier) < maxEarlier {
				s.earlier = append(s.earlier, d)
				known[d.entry] = true
			}
		}
	}
	s.name()
}

// name makes the definitions with the configuration's key.
func (s *settings) name() {
	s.definitions = map[string]definition{}
	for _, d := range slices.Concat(s.current, s.earlier) {
		s.definitions[d.entry.Definition(s.config.DefinitionKey())] = d
	}
}

// keyed returns the settings with another key of definitions.
func (s *settings) keyed(key []byte) *settings {
	keyed := *s
	keyed.config = s.config.WithDefinitionKey(key)
	keyed.name()
	return &keyed
}

func newModel(name string, p *config.Provider, key string) (m model.Model, err error) {
	switch p.Type {
	case "openai":
		api := openai.Responses
		if p.UsesChat() {
			api = openai.Chat
		}
		m, err = openai.New(openai.Config{
			Name: name, Model: p.Model, Key: key, BaseURL: p.BaseURL, API: api,
			MaxOutputTokens: p.MaxOutputTokens, ThinkingBudget: p.Thinking.BudgetTokens,
		})
	case "anthropic":
		m, err = anthropic.New(anthropic.Config{
			Name: name, Model: p.Model, Key: key, BaseURL: p.BaseURL,
			MaxOutputTokens: p.MaxOutputTokens, ThinkingBudget: p.Thinking.BudgetTokens,
		})
	default:
		return nil, fmt.Errorf("unknown type %q", p.Type)
	}
	if err != nil {
		return nil, err
	}
	return model.WithTimeouts(m, model.Timeouts{
		FirstChunk: time.Duration(p.Timeouts.FirstChunk), BetweenChunks: time.Duration(p.Timeouts.BetweenChunks), Call: time.Duration(p.Timeouts.Call),
	}), nil
}

func newServer(name string, c *config.Server, secrets []string) (toolbox.Server, error) {
	var patterns masking.Config
	if c.DataMasking.Enabled {
		patterns.Groups, patterns.Patterns = c.DataMasking.PatternGroups, c.DataMasking.Patterns
		for _, p := range c.DataMasking.CustomPatterns {
			patterns.Custom = append(patterns.Custom, masking.Custom{Name: p.Name, Pattern: p.Pattern})
		}
	}
	masker, err := masking.New(patterns)
	if err != nil {
		return toolbox.Server{}, fmt.Errorf("data_masking: %w", err)
	}
	t := c.Transport
	return toolbox.Server{
		Name: name, Type: toolbox.Type(t.Type), Command: t.Command, Args: t.Args, Env: t.Env,
		URL: t.URL, BearerToken: t.BearerToken, Headers: t.CustomHeaders, Secrets: secrets, SkipVerifySSL: !t.VerifySSL, Timeout: time.Duration(t.Timeout),
		Instructions: c.Instructions, Tools: c.Tools, ReadOnlyTools: c.ReadOnlyTools, AllowWrites: c.AllowWrites, NoApproval: c.NoApproval, Mask: masker.Mask, MaskID: masker.Digest(),
	}, nil
}

// registered returns the servers of the file, in the order of their names.
func (s *settings) registered() []toolbox.Server {
	var servers []toolbox.Server
	for _, name := range slices.Sorted(maps.Keys(s.config.Servers)) {
		servers = append(servers, s.servers[name])
	}
	return servers
}

// limits returns how many sessions may run.
func (s *settings) limits() worker.Limits {
	return worker.Limits{Workers: s.config.Queue.WorkerCount, Sessions: s.config.Queue.MaxConcurrentSessions}
}

// model returns the client of an entry of llm_providers: the one of the session's plan, else the one
// of its name.
func (s *settings) model(provider session.Provider, last bool) (worker.Model, bool) {
	c := s.definitions[provider.Definition].models
	ok := c.first != nil
	if !ok {
		c, ok = s.models[provider.Name]
	}
	if last {
		return c.last, ok
	}
	return c.first, ok
}

// server returns the configuration of a server as an agent may use it: that of the session's plan,
// else that of its name.
func (s *settings) server(used session.Server) (server toolbox.Server, external bool, err error) {
	if used.Name == config.BuiltinServer {
		return toolbox.Server{}, false, nil
	}
	server = s.definitions[used.Definition].server
	ok := server.Name != ""
	if !ok {
		server, ok = s.servers[used.Name]
	}
	if !ok {
		return toolbox.Server{}, false, fmt.Errorf("the configuration has no MCP server %s", used.Name)
	}
	server.Narrow = used.Tools
	return server, true, nil
}
