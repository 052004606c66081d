// Package clients is the table of the coding agents that Tocsin knows by name:
// what they are called on the command line, by themselves in MCP, and by people.
//
// It knows nothing of how they are set up or what their hooks say; it says which
// inbox is whose, so that a client's gateway and its hooks find the same one.
package clients

import "strings"

// Client is a coding agent.
type Client struct {
	// Name is what the command line calls it.
	Name string
	// MCP is the name that it gives itself when it initializes an MCP server.
	MCP string
	// Title is its name for people.
	Title string
}

// geminiMCP is what Gemini CLI calls itself. Older ones add "-" and the name
// under which the server is set up.
const geminiMCP = "gemini-cli-mcp-client"

// All lists the clients, in the order in which they are told.
func All() []Client {
	return []Client{
		{Name: "claude-code", MCP: "claude-code", Title: "Claude Code"},
		{Name: "codex", MCP: "codex-mcp-client", Title: "Codex CLI"},
		{Name: "gemini-cli", MCP: geminiMCP, Title: "Gemini CLI"},
		{Name: "cursor", MCP: "cursor-vscode", Title: "Cursor"},
		{Name: "vscode", MCP: "Visual Studio Code", Title: "VS Code"},
	}
}

// Named returns the client that the command line calls name.
func Named(name string) (c Client, found bool) {
	for _, c := range All() {
		if c.Name == name {
			return c, true
		}
	}
	return Client{}, false
}

// Inbox is the key of the inbox of whoever calls itself mcp in the directory
// dir, which is absolute and without symbolic links.
func Inbox(mcp, dir string) string {
	if strings.HasPrefix(mcp, geminiMCP+"-") {
		mcp = geminiMCP
	}
	return mcp + " in " + dir
}

// NamedInbox is the key of an inbox that was given a name of its own, which the
// gateway calls --client and the hooks call --inbox.
func NamedInbox(name string) string { return "client " + name }
