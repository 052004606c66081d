package setup

import (
	"path/filepath"
	"slices"
	"strings"
)

// Timeouts of hooks. A hook answers in milliseconds; hookSeconds is for a machine that
// hangs. The timeout of the hook that waits is a minute longer than its wait.
const (
	hookSeconds   = 10
	rewakeWait    = "30m"
	rewakeSeconds = 31 * 60
)

// claudeCode keeps a project's MCP servers in .mcp.json, the user's in
// ~/.claude.json, and hooks in settings.json
// (code.claude.com/docs/en/mcp, /settings and /hooks).
func claudeCode() Client {
	const name = "claude-code"
	servers := jsonFormat{serversKey: "mcpServers", serverType: "stdio"}
	off := func(s settings, found *Entries) {
		if slices.Contains(s.DisabledServers, ServerName) {
			found.ServerOff = "disabledMcpServers"
		}
		if slices.Contains(s.DisabledMcpjsonServers, ServerName) {
			found.ProjectServerOff = "disabledMcpjsonServers"
		}
	}
	hooks := jsonFormat{hooks: claudeHooks(name), readSettings: func(s settings, found *Entries) {
		if s.DisableAllHooks {
			found.HooksOff = "disableAllHooks"
		}
		off(s, found)
		for plugin, on := range s.EnabledPlugins {
			if name, _, _ := strings.Cut(plugin, "@"); on == true && name == ServerName {
				found.Plugin = plugin
			}
		}
	}}
	dir := func(p Dirs) string { return p.envOr("CLAUDE_CONFIG_DIR", p.Home, ".claude") }
	return Client{
		Agent: agent(name), Programs: []string{"claude"}, Dir: dir,
		Files: func(p Dirs, s Scope) []File {
			if s == User {
				return []File{
					{filepath.Join(p.envOr("CLAUDE_CONFIG_DIR", p.Home), ".claude.json"), "MCP server", servers},
					{filepath.Join(dir(p), "settings.json"), "hooks", hooks},
				}
			}
			return []File{
				{filepath.Join(p.Project, ".mcp.json"), "MCP server", servers},
				{filepath.Join(p.Project, ".claude", "settings.json"), "hooks", hooks},
			}
		},
		// The servers that claude mcp add stores for one directory, and the settings of a
		// project that only this user has.
		ReadOnlyFiles: func(p Dirs, s Scope) []File {
			if s == User {
				return nil
			}
			local := servers
			dir := p.Project
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir = real
			}
			local.parents, local.readSettings = []string{"projects", dir}, off
			return []File{
				{filepath.Join(p.envOr("CLAUDE_CONFIG_DIR", p.Home), ".claude.json"), "MCP server", local},
				{filepath.Join(p.Project, ".claude", "settings.local.json"), "hooks", hooks},
			}
		},
		ReadsParents: true,
		Approval: func(s Scope) string {
			if s == Project {
				return "once the server is approved"
			}
			return ""
		},
		NextSteps: func(s Scope, o Options) []string {
			next := []string{"restart Claude Code; /mcp and /hooks show what it has"}
			if s == Project {
				next = append(next, "approve the server tocsin when it asks: a project's servers wait for that")
			} else {
				next = append(next, "a Claude Code that runs now may write its old .claude.json over this one: quit it first")
			}
			if !o.Rewake && o.Hooks {
				next = append(next, "with --rewake an alert also wakes a session that has stopped, for 30 minutes, at the cost of a turn")
			}
			return next
		},
	}
}

// claudeHooks returns the hooks in the format that Claude Code introduced and Codex
// adopted: groups with a matcher, timeouts in seconds.
func claudeHooks(client string) func(Options) []hookEntry {
	return func(o Options) []hookEntry {
		run := handler{Type: "command", Command: o.hookCommand(client), Timeout: hookSeconds}
		entries := []hookEntry{
			{"SessionStart", "", run},
			{"UserPromptSubmit", "", run},
			{"PostToolUse", "*", run},
			{"Stop", "", run},
		}
		if client == "codex" {
			return entries
		}
		// A failed tool call is a separate event. SessionEnd lets the hook remove the state
		// of the session.
		entries = append(entries, hookEntry{"PostToolUseFailure", "*", run}, hookEntry{"SessionEnd", "", run})
		if o.Rewake {
			entries = append(entries, hookEntry{"Stop", "", handler{
				Type: "command", Command: o.hookCommand(client, "--wait", rewakeWait), AsyncRewake: true, Timeout: rewakeSeconds,
			}})
		}
		return entries
	}
}
