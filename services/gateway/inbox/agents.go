package inbox

import "strings"

// Agent is a coding agent.
type Agent struct {
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

// Agents lists the known agents.
func Agents() []Agent {
	return []Agent{
		{Name: "claude-code", MCP: "claude-code", Title: "Claude Code"},
		{Name: "codex", MCP: "codex-mcp-client", Title: "Codex CLI"},
		{Name: "gemini-cli", MCP: geminiMCP, Title: "Gemini CLI"},
		{Name: "cursor", MCP: "cursor-vscode", Title: "Cursor"},
		{Name: "vscode", MCP: "Visual Studio Code", Title: "VS Code"},
	}
}

// FindAgent returns the client that the command line calls name.
func FindAgent(name string) (c Agent, found bool) {
	for _, c := range Agents() {
		if c.Name == name {
			return c, true
		}
	}
	return Agent{}, false
}

// Key is the key of the inbox of whoever calls itself mcp in the directory
// dir, which is absolute and without symbolic links.
func Key(mcp, dir string) string {
	if strings.HasPrefix(mcp, geminiMCP+"-") {
		mcp = geminiMCP
	}
	return mcp + " in " + dir
}

// NamedKey is the key of an inbox that was given a name of its own, which the
// gateway calls --client and the hooks call --inbox.
func NamedKey(name string) string { return "client " + name }
