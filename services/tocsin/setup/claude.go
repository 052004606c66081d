package setup

import (
	"path/filepath"
	"slices"
	"strings"
)

// Timeouts of hooks. A hook answers in milliseconds; the bound is for a machine
// that hangs. The hook that waits gets a minute more than it waits.
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
	servers := jsonFormat{servers: "mcpServers", kind: "stdio"}
	off := func(s settings, found *Found) {
		if slices.Contains(s.DisabledServers, ServerName) {
			found.ServerOff = "disabledMcpServers"
		}
		if slices.Contains(s.DisabledMcpjsonServers, ServerName) {
			found.ProjectServerOff = "disabledMcpjsonServers"
		}
	}
	hooks := jsonFormat{hooks: claudeHooks(name), more: func(s settings, found *Found) {
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
	dir := func(p Place) string { return p.or("CLAUDE_CONFIG_DIR", p.Home, ".claude") }
	return Client{
		Name: name, Title: "Claude Code", Programs: []string{"claude"}, HasHooks: true, Dir: dir,
		Files: func(p Place, s Scope) []File {
			if s == User {
				return []File{
					{filepath.Join(p.or("CLAUDE_CONFIG_DIR", p.Home), ".claude.json"), "MCP server", servers},
					{filepath.Join(dir(p), "settings.json"), "hooks", hooks},
				}
			}
			return []File{
				{filepath.Join(p.Project, ".mcp.json"), "MCP server", servers},
				{filepath.Join(p.Project, ".claude", "settings.json"), "hooks", hooks},
			}
		},
		// The servers that claude mcp add keeps for one directory alone, and the
		// settings that are the user's alone.
		Also: func(p Place, s Scope) []File {
			if s == User {
				return nil
			}
			local := servers
			dir := p.Project
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir = real
			}
			local.under, local.more = []string{"projects", dir}, off
			return []File{
				{filepath.Join(p.or("CLAUDE_CONFIG_DIR", p.Home), ".claude.json"), "MCP server", local},
				{filepath.Join(p.Project, ".claude", "settings.local.json"), "hooks", hooks},
			}
		},
		Upwards: true,
		Needs: func(s Scope) string {
			if s == Project {
				return "once the server is approved"
			}
			return ""
		},
		Next: func(s Scope, w Wanted) []string {
			next := []string{"restart Claude Code; /mcp and /hooks show what it has"}
			if s == Project {
				next = append(next, "approve the server tocsin when it asks: a project's servers wait for that")
			} else {
				next = append(next, "a Claude Code that runs now may write its old .claude.json over this one: quit it first")
			}
			if !w.Rewake && w.Hooks {
				next = append(next, "with --rewake an alert also wakes a session that has stopped, for 30 minutes, at the cost of a turn")
			}
			return next
		},
	}
}

// claudeHooks are the hooks in the form that Claude Code began and Codex took
// over: groups with a matcher, timeouts in seconds.
func claudeHooks(client string) func(Wanted) []hookEntry {
	return func(w Wanted) []hookEntry {
		run := handler{Type: "command", Command: w.hook(client), Timeout: hookSeconds}
		entries := []hookEntry{
			{"SessionStart", "", run},
			{"UserPromptSubmit", "", run},
			{"PostToolUse", "*", run},
			{"Stop", "", run},
		}
		if client == "codex" {
			return entries
		}
		// A tool that failed is an event of its own; the session's end lets go
		// of what is remembered of it.
		entries = append(entries, hookEntry{"PostToolUseFailure", "*", run}, hookEntry{"SessionEnd", "", run})
		if w.Rewake {
			entries = append(entries, hookEntry{"Stop", "", handler{
				Type: "command", Command: w.hook(client, "--wait", rewakeWait), AsyncRewake: true, Timeout: rewakeSeconds,
			}})
		}
		return entries
	}
}
