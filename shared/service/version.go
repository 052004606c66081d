package service

import (
	"runtime"
	"runtime/debug"
)

// version and commit are set by the linker (see the Makefile).
var version, commit string

// Version says what was built.
type Version struct{ Version, Commit, Go string }

// BuildVersion is what the linker was told, else what the Go toolchain
// recorded, else "dev" and "unknown".
func BuildVersion() Version {
	v := Version{Version: version, Commit: commit, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if v.Version == "" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v.Commit == "" {
			v.Commit = s.Value
		}
	}
	if v.Version == "" {
		v.Version = "dev"
	}
	if v.Commit == "" {
		v.Commit = "unknown"
	}
	return v
}
