package setup

import "path/filepath"

// cursor keeps MCP servers in .cursor/mcp.json and hooks in .cursor/hooks.json,
// of the project or of the home directory; hooks.json has a version, and no
// groups (cursor.com/docs/context/mcp and cursor.com/docs/agent/hooks).
// In Cursor, the hook of a prompt can't add to the context, so pending alerts are
// delivered after the next tool call.
func cursor() Client {
	const name = "cursor"
	servers := jsonFormat{serversKey: "mcpServers", serverType: "stdio"}
	hooks := jsonFormat{version: 1, ungrouped: true, hooks: func(o Options) []hookEntry {
		run := handler{Command: o.hookCommand(name), Timeout: hookSeconds}
		return []hookEntry{
			{"sessionStart", "", run},
			{"beforeSubmitPrompt", "", run},
			{"postToolUse", "", run},
			{"stop", "", run},
			{"sessionEnd", "", run},
		}
	}}
	dir := func(p Dirs) string { return filepath.Join(p.Home, ".cursor") }
	return Client{
		Agent: agent(name), Programs: []string{"cursor", "cursor-agent"}, Dir: dir,
		Files: func(p Dirs, s Scope) []File {
			at := dir(p)
			if s == Project {
				at = filepath.Join(p.Project, ".cursor")
			}
			return []File{
				{filepath.Join(at, "mcp.json"), "MCP server", servers},
				{filepath.Join(at, "hooks.json"), "hooks", hooks},
			}
		},
		Approval: func(s Scope) string {
			if s == Project {
				return "in a trusted workspace, with the server enabled"
			}
			return "once the server is enabled"
		},
		NextSteps: func(s Scope, _ Options) []string {
			next := []string{"enable the server tocsin in Cursor's settings, under MCP; its Hooks page shows what it runs"}
			if s == Project {
				next = append(next, "trust the workspace when it asks: a project's hooks run only then")
			}
			return next
		},
	}
}
