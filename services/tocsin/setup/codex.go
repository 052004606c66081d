package setup

import "path/filepath"

// codex keeps MCP servers in config.toml, and reads hooks from hooks.json
// beside it: of CODEX_HOME, or of .codex in a project that the user trusts.
// Hooks are on unless features.hooks is false, and each waits for the user's
// review (developers.openai.com/codex/mcp, /config-reference and /hooks).
// Install writes hooks.json and not [hooks] in config.toml, because Codex writes its own
// state of hooks into that table.
func codex() Client {
	const name = "codex"
	hooks := jsonFormat{hooks: claudeHooks(name)}
	dir := func(p Dirs) string { return p.envOr("CODEX_HOME", p.Home, ".codex") }
	return Client{
		Agent: agent(name), Programs: []string{"codex"}, ReadsParents: true, Dir: dir,
		Files: func(p Dirs, s Scope) []File {
			at := dir(p)
			if s == Project {
				at = filepath.Join(p.Project, ".codex")
			}
			return []File{
				{filepath.Join(at, "config.toml"), "MCP server", tomlFormat{}},
				{filepath.Join(at, "hooks.json"), "hooks", hooks},
			}
		},
		Approval: func(s Scope) string {
			if s == Project {
				return "once the project and, with /hooks, the hooks are trusted"
			}
			return "once the hooks are trusted with /hooks"
		},
		NextSteps: func(s Scope, o Options) []string {
			next := []string{"restart Codex; /mcp shows the server"}
			if o.Hooks {
				next = append(next, "review and trust the hooks with /hooks: Codex runs none before that")
			}
			if s == Project {
				next = append(next, "trust the project when Codex asks: it reads .codex of a trusted project only (--scope user needs no trust)")
			}
			return next
		},
	}
}
