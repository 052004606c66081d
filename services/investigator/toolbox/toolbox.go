// Package toolbox is the investigator's MCP client: it keeps the definitions of the servers' tools by
// a health check, decides which tools an agent is offered, and calls them.
//
// A [Registry] lives as long as the process and watches the servers. A [Set] is what one
// execution of an agent has: connections of its own, made in the background while the model
// thinks, and the definitions as they were when it was opened.
//
// All text that leaves the package passed the server's mask. Where the mask fails, the text is
// withheld. The package knows neither models nor sessions, and asks for no approval: a tool that
// may write is withheld, or its calls are denied, unless the configuration permits them.
package toolbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// The bounds.
const (
	// StartTimeout bounds the start of a server until its tools are listed.
	StartTimeout = 30 * time.Second
	// HealthInterval is the time between two health checks of a server.
	HealthInterval = 15 * time.Second
	// HealthTimeout bounds one health check of a server that has started.
	HealthTimeout = 5 * time.Second
	// MaxMessage bounds one message of a server, and the text of a result, in bytes. A longer
	// one is an error result, and the server is started again.
	MaxMessage = 8 << 20
	// MaxTools bounds the tools of a server. Those after it are left out with a note.
	MaxTools = 500
	// MaxDescription bounds the description of a tool, in bytes; a longer one is cut.
	MaxDescription = 4 << 10
	// MaxSchema bounds the input schema of a tool, in bytes. A tool with a larger one is withheld.
	MaxSchema = 64 << 10
	// maxSchemaDepth bounds its nesting. A tool with a deeper one is withheld.
	maxSchemaDepth = 64
	// maxDefinitions bounds what is kept of one server's tools, in bytes. Tools after it are left
	// out with a note.
	maxDefinitions = 4 << 20
	// maxPages bounds the pages of a list of tools. Those after it are left out with a note.
	maxPages = 100
	// maxToolName bounds the name that a server gives a tool, in bytes; a longer one is withheld.
	maxToolName = 200
	// maxError bounds the text of an error, in bytes; a longer one is cut.
	maxError = 4 << 10
)

// Type is the transport of a server.
type Type string

// The transports.
const (
	Stdio Type = "stdio"
	HTTP  Type = "http" // streamable HTTP
)

// Server is the configuration of an MCP server.
type Server struct {
	// Name is the server's key in the configuration.
	Name string
	Type Type

	// Command, Args and Env belong to Stdio. The program gets no other variables but those
	// named by [Environment].
	Command string
	Args    []string
	Env     map[string]string

	// URL and what follows belong to HTTP. Timeout bounds one request; 0 leaves it to the context.
	URL           string
	BearerToken   string
	Headers       map[string]string
	SkipVerifySSL bool
	Timeout       time.Duration

	// Secrets are hidden in all texts of the server, beside its token and other values that are
	// secrets by their names. Those under 6 bytes are not: they may stand in words.
	Secrets []string

	// Instructions are for the model.
	Instructions string
	// Tools are glob patterns of the tools that may be offered; none means all.
	Tools []string
	// ReadOnlyTools are glob patterns of the tools that a person vouches for.
	ReadOnlyTools []string
	// AllowWrites offers tools that may change something too. NoApproval are glob patterns of those
	// that need no approval.
	AllowWrites bool
	NoApproval  []string

	// Narrow has the names of the tools that an alert chose; none means all. It only takes away.
	Narrow []string

	// Mask masks text. A server without it shows no text.
	Mask func(string) string
	// MaskID identifies the mask: it is part of the digest.
	MaskID string
}

// Digest identifies the configuration, without Narrow. It depends on secrets, so it is not for display.
func (s Server) Digest() string {
	public := struct {
		Name, Type, Command string
		Args                []string
		Env                 map[string]string
		URL, Token          string
		Headers             map[string]string
		Secrets             []string
		SkipVerify          bool
		Timeout             time.Duration
		Instructions        string
		Tools, ReadOnly     []string
		AllowWrites         bool
		NoApproval          []string
		MaskID              string
	}{s.Name, string(s.Type), s.Command, s.Args, s.Env, s.URL, s.BearerToken, s.Headers, s.Secrets, s.SkipVerifySSL,
		s.Timeout, s.Instructions, s.Tools, s.ReadOnlyTools, s.AllowWrites, s.NoApproval, s.MaskID}
	b, err := json.Marshal(public)
	if err != nil {
		panic("toolbox: a server's configuration can't be encoded: " + err.Error()) // it has strings alone
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Tool is the definition of a tool.
type Tool struct {
	// Server is the server's name; "" for a built-in tool that stands alone.
	Server string
	// Name is the name that the server gives it.
	Name string
	// ModelName is the name that a model sees: at most 64 characters of [a-zA-Z0-9_-]. It is set by
	// [Set.Open] for the tools that are offered.
	ModelName string
	// Description is masked and cut.
	Description string
	// Schema is the JSON schema of the arguments, an object, with masked texts.
	Schema json.RawMessage
	// ReadOnly reports whether the server annotates it so, or a person vouches for it.
	ReadOnly bool
	// Repeatable reports whether by the server a second call does no harm: readOnlyHint or
	// idempotentHint. A person's vouching is not enough for that.
	Repeatable bool
	// NeedsApproval reports whether a call may change something that a person has to approve. Such a
	// call is denied: approvals are not supported yet.
	NeedsApproval bool
	// Offered reports whether a model may call it; WhyNot is the reason if not, or why its calls are
	// denied.
	Offered bool
	WhyNot  string
	// Digest identifies the definition as the server sent it.
	Digest string
}

// FullName returns the name for people: server.tool.
func (t Tool) FullName() string {
	if t.Server == "" {
		return t.Name
	}
	return t.Server + "." + t.Name
}

// Listed is what a [Set] has of one server.
type Listed struct {
	Server       string
	Instructions string
	// Tools are all tools of the server, those that are withheld included.
	Tools []Tool
	// Error is the reason why the server can't be used. Its tools are then none.
	Error string
}

// Result is the answer to a call. Its text is masked and valid UTF-8.
type Result struct {
	Text    string
	IsError bool
	// TimedOut reports whether the error is that the call's time was over.
	TimedOut bool
	// Retried reports whether the call was made a second time, in a new session.
	Retried  bool
	Duration time.Duration
}

// Builtin is a tool that runs in this process.
type Builtin struct {
	// Definition needs Name, Description, Schema and, where the tools of a built-in server are
	// meant, Server. It is offered as it is.
	Definition Tool
	// Func answers a call. The context has the caller's deadline.
	Func func(ctx context.Context, args json.RawMessage) Result
	// Mask masks what Func answers. Without it no text is shown.
	Mask func(string) string
}
