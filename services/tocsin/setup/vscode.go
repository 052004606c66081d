package setup

import "path/filepath"

// vscode keeps MCP servers in .vscode/mcp.json, or in mcp.json of the user's
// profile (code.visualstudio.com/docs/copilot/reference/mcp-configuration). Its
// agent hooks are in preview, and their input and answers are not those of any
// client that tocsin hook speaks to: none are written.
func vscode() Client {
	format := jsonFormat{serversKey: "servers", serverType: "stdio"}
	dir := func(p Dirs) string { return filepath.Join(p.Config, "Code", "User") }
	return Client{
		Agent: agent("vscode"), Programs: []string{"code"}, Dir: dir,
		Files: func(p Dirs, s Scope) []File {
			at := dir(p)
			if s == Project {
				at = filepath.Join(p.Project, ".vscode")
			}
			return []File{{filepath.Join(at, "mcp.json"), "MCP server", format}}
		},
		Approval: func(Scope) string { return "once the server is trusted and started" },
		NextSteps: func(Scope, Options) []string {
			return []string{
				"start the server tocsin with MCP: List Servers, and trust it when VS Code asks",
				"instruct its agent to call observe, such as in .github/copilot-instructions.md: VS Code's hooks are a preview that tocsin does not use",
			}
		},
	}
}
