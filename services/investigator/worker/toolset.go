package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
)

// Toolbox opens sets of MCP servers. It implements [Tools].
type Toolbox struct {
	Registry *toolbox.Registry
	// Server returns the configuration of a server as an agent may use it, and false for a
	// server whose tools are built in. An error is shown to the model: the server has no tools.
	Server func(s session.Server) (server toolbox.Server, external bool, err error)
	// Builtins returns the tools that this process answers for a session.
	Builtins func(submitted session.Submitted, servers []session.Server) []toolbox.Builtin
}

// Open implements [Tools].
func (t *Toolbox) Open(submitted session.Submitted, servers []session.Server) ToolSet {
	ctx, cancel := context.WithCancel(context.Background())
	s := &toolSet{cancel: cancel, opened: make(chan struct{}), failed: map[string]string{}, listed: map[string]toolbox.Listed{}}
	var builtins []toolbox.Builtin
	if t.Builtins != nil {
		builtins = t.Builtins(submitted, servers)
	}
	s.set = toolbox.NewSet(t.Registry, builtins)
	var external []toolbox.Server
	for _, one := range servers {
		s.servers = append(s.servers, one.Name)
		server, ok, err := t.Server(one)
		switch {
		case err != nil:
			s.failed[one.Name] = err.Error()
		case ok:
			external = append(external, server)
		}
	}
	go func() {
		defer close(s.opened)
		for _, l := range s.set.Open(ctx, external) {
			s.listed[l.Server] = l
		}
	}()
	return s
}

type toolSet struct {
	set     *toolbox.Set
	cancel  context.CancelFunc
	servers []string
	failed  map[string]string // by server; written before opened is closed
	listed  map[string]toolbox.Listed
	opened  chan struct{}
}

// List implements [ToolSet].
func (s *toolSet) List(ctx context.Context) []session.Listed {
	if err := s.await(ctx); err != nil {
		return nil
	}
	all := make([]session.Listed, 0, len(s.servers))
	tools := s.set.Tools()
	for _, name := range s.servers {
		l := session.Listed{Server: name, Error: s.listed[name].Error}
		if text := s.failed[name]; text != "" {
			l.Error = text
		}
		for _, tool := range tools {
			if tool.Server == name {
				l.Tools = append(l.Tools, session.ListedTool{
					Name: tool.Name, Tool: model.Tool{Name: tool.ModelName, Description: tool.Description, Schema: tool.Schema},
					Repeatable: tool.Repeatable, Digest: tool.Digest,
				})
			}
		}
		all = append(all, l)
	}
	return all
}

// Call implements [ToolSet].
func (s *toolSet) Call(ctx context.Context, server string, tool session.ListedTool, arguments []byte) ToolResult {
	if err := s.await(ctx); err != nil {
		return ToolResult{Text: fmt.Sprintf("the MCP server %s did not start in time", server), IsError: true}
	}
	for _, known := range s.set.Tools() {
		if known.Server != server || known.Name != tool.Name {
			continue
		}
		if known.Digest != tool.Digest {
			return ToolResult{Text: fmt.Sprintf("the definition of %s changed since the investigation began, so it is not used", known.FullName()), IsError: true}
		}
		result := s.set.Call(ctx, server, tool.Name, arguments)
		return ToolResult{Text: result.Text, IsError: result.IsError}
	}
	text := fmt.Sprintf("the tool %s.%s is not offered any more", server, tool.Name)
	for _, why := range []string{s.failed[server], s.listed[server].Error} {
		if why != "" {
			text = why
		}
	}
	return ToolResult{Text: text, IsError: true}
}

// errNotOpen means that the set was not open in time.
var errNotOpen = errors.New("the tools are not open")

func (s *toolSet) await(ctx context.Context) error {
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
		return errNotOpen
	}
}

// Close implements [ToolSet].
func (s *toolSet) Close() {
	s.cancel()
	<-s.opened
	s.set.Close()
}
