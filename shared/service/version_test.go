package service

import (
	"runtime/debug"
	"testing"
)

func TestRecorded(t *testing.T) {
	for _, tt := range []struct{ version, revision, wantVersion, wantCommit string }{
		{"", "", "", ""},
		{"(devel)", "", "", ""},
		{"(devel)", "abc", "", "abc"},
		{"v1.2.3", "", "v1.2.3", ""},
		{"v1.2.3-rc.1", "", "v1.2.3-rc.1", ""},
		{"v0.0.0-20261122120000-0123456789ab", "", "v0.0.0-20261122120000-0123456789ab", "0123456789ab"},
		{"v1.2.4-0.20261122120000-0123456789ab+dirty", "0123456789abcdef", "v1.2.4-0.20261122120000-0123456789ab+dirty", "0123456789abcdef"},
		{"v1.2.4-0.20261122120000-0123456789ab+dirty", "", "v1.2.4-0.20261122120000-0123456789ab+dirty", "0123456789ab"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: tt.version}}
		if tt.revision != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: tt.revision}}
		}
		version, commit := recorded(info)
		if version != tt.wantVersion {
			t.Errorf("version of %q, %q = %q, want %q", tt.version, tt.revision, version, tt.wantVersion)
		}
		if commit != tt.wantCommit {
			t.Errorf("commit of %q, %q = %q, want %q", tt.version, tt.revision, commit, tt.wantCommit)
		}
	}
}
