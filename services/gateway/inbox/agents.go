package inbox

import "strings"

// Agent is a coding agent that Tocsin knows by name.
type Agent struct {
	// Name is the agent's name on the command line.
	Name string
	// MCP is the name that the agent gives as an MCP client.
	MCP string
	// Title is its name for people.
	Title string
	// HasHooks reports whether it runs hooks.
	HasHooks bool
}

// geminiMCP is the MCP name of Gemini CLI. Older versions append "-" and the name
// under which the server is configured.
const geminiMCP = "gemini-cli-mcp-client"

// Agents lists the known coding agents, which tocsin install, hook and wait take.
func Agents() []Agent {
	return []Agent{
		{Name: "claude-code", MCP: "claude-code", Title: "Claude Code", HasHooks: true},
		{Name: "codex", MCP: "codex-mcp-client", Title: "Codex CLI", HasHooks: true},
		{Name: "gemini-cli", MCP: geminiMCP, Title: "Gemini CLI", HasHooks: true},
		{Name: "cursor", MCP: "cursor-vscode", Title: "Cursor", HasHooks: true},
		{Name: "vscode", MCP: "Visual Studio Code", Title: "VS Code"},
	}
}

// FindAgent returns the agent with a name of the command line.
func FindAgent(name string) (a Agent, found bool) {
	for _, a := range Agents() {
		if a.Name == name {
			return a, true
		}
	}
	return Agent{}, false
}

// Key returns the key of an agent's inbox in a project, the same for its gateway and
// its hooks. mcp is the agent's MCP name, dir the project's absolute directory without
// symbolic links.
func Key(mcp, dir string) string {
	if strings.HasPrefix(mcp, geminiMCP+"-") {
		mcp = geminiMCP
	}
	return mcp + " in " + dir
}

// NamedKey returns the key of an inbox that the user named: --client of the gateway,
// --inbox of the hooks.
func NamedKey(name string) string { return "client " + name }
