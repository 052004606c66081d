package setup

import (
	"path/filepath"
	"slices"
)

// geminiCLI keeps all in settings.json: a project's in .gemini of the working
// directory, the user's in ~/.gemini, or .gemini of GEMINI_CLI_HOME. Timeouts
// are in milliseconds; hooks are on unless hooksConfig turns them off
// (docs/reference/configuration.md, docs/hooks/reference.md of gemini-cli).
func geminiCLI() Client {
	const name = "gemini-cli"
	format := jsonFormat{
		serversKey: "mcpServers",
		hooks: func(o Options) []hookEntry {
			run := handler{Name: ServerName, Type: "command", Command: o.hookCommand(name), Timeout: hookSeconds * 1000}
			return []hookEntry{
				{"SessionStart", "", run},
				{"BeforeAgent", "", run},
				{"AfterTool", "*", run},
				{"AfterAgent", "", run},
				{"SessionEnd", "", run},
			}
		},
		readSettings: func(s settings, found *Entries) {
			switch {
			case s.HooksConfig.Enabled != nil && !*s.HooksConfig.Enabled:
				found.HooksOff = "hooksConfig.enabled"
			case slices.Contains(s.HooksConfig.Disabled, ServerName):
				found.HooksOff = "hooksConfig.disabled"
			}
			switch {
			case slices.Contains(s.MCP.Excluded, ServerName):
				found.ServerOff = "mcp.excluded"
			case s.MCP.Allowed != nil && !slices.Contains(s.MCP.Allowed, ServerName):
				found.ServerOff = "mcp.allowed"
			}
		},
	}
	dir := func(p Dirs) string { return filepath.Join(p.envOr("GEMINI_CLI_HOME", p.Home), ".gemini") }
	return Client{
		Agent: agent(name), Programs: []string{"gemini"}, Dir: dir,
		Files: func(p Dirs, s Scope) []File {
			at := dir(p)
			if s == Project {
				at = filepath.Join(p.Project, ".gemini")
			}
			return []File{{filepath.Join(at, "settings.json"), "MCP server and hooks", format}}
		},
		Approval: func(Scope) string { return "in a trusted folder" },
		NextSteps: func(Scope, Options) []string {
			return []string{
				"restart Gemini CLI; /mcp and /hooks panel show what it has",
				"trust the folder when it asks: in another it starts no MCP servers, and reads no settings of the project",
			}
		},
	}
}
