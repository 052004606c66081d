package service

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// version and commit are set by the linker's flags (see the Makefile).
var version, commit string

// Version identifies a build.
type Version struct{ Version, Commit, Go string }

// BuildVersion returns what the linker's flags set, else what the Go toolchain recorded,
// as it does for go install, else "dev" and "unknown".
func BuildVersion() Version {
	v := Version{Version: version, Commit: commit, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		recordedVersion, recordedCommit := recorded(info)
		v.Version, v.Commit = cmp.Or(v.Version, recordedVersion), cmp.Or(v.Commit, recordedCommit)
	}
	v.Version, v.Commit = cmp.Or(v.Version, "dev"), cmp.Or(v.Commit, "unknown")
	return v
}

// recorded returns the version and the commit in a build's information, empty where it
// has none. A build from the module cache records no commit, but the last part of a
// pseudo-version, such as v0.0.0-20261122120000-0123456789ab, is its beginning.
func recorded(info *debug.BuildInfo) (version, commit string) {
	if info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return version, s.Value
		}
	}
	const abbreviated = 12 // hexadecimal digits
	plain, _, _ := strings.Cut(version, "+")
	if last := plain[strings.LastIndexByte(plain, '-')+1:]; len(last) == abbreviated && strings.Trim(last, "0123456789abcdef") == "" {
		commit = last
	}
	return version, commit
}
