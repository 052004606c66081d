package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestReleasable(t *testing.T) {
	const smaps = `00400000-01a7f000 r-xp 00000000 fe:00 1002                           /opt/my tools/tocsin
Size:              23036 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01a7f000-033ad000 r--p 0167f000 fe:00 1002                               /opt/my tools/tocsin
Anonymous:             0 kB
033ad000-033ae000 r--p 0167f000 fe:00 1002                               /opt/my tools/tocsin
Anonymous:             4 kB
033ae000-0346e000 rw-p 02fae000 fe:00 1002                               /opt/my tools/tocsin
Anonymous:             0 kB
c000000000-c000800000 rw-p 00000000 00:00 0                              [anon: Go: heap]
Anonymous:          4004 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 77                         /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000002000-7f0000003000 r-xp 00000000 fe:00 1002                       /opt/my tools/tocsin
`
	var all []mapping
	for line := range strings.Lines(smaps) {
		all = addMapLine(all, strings.TrimSuffix(line, "\n"))
	}
	want := []bool{true, true, false, false, false, false, false}
	if len(all) != len(want) {
		t.Fatalf("%d mappings, want %d", len(all), len(want))
	}
	for i, m := range all {
		if got := m.releasable("/opt/my tools/tocsin"); got != want[i] {
			t.Errorf("mapping %d: releasable = %t, want %t: %+v", i, got, want[i], m)
		}
	}
}

// TestReleaseProgram expects a process to have less in memory, and to go on.
func TestReleaseProgram(t *testing.T) {
	before := residentFile(t)
	if err := releaseProgram(); err != nil {
		t.Fatal(err)
	}
	after := residentFile(t)
	runtime.GC()
	if after >= before {
		t.Errorf("%d KiB of files are resident, want less than the %d KiB before", after, before)
	}
}

func residentFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest + " none")[0])
	if err != nil {
		t.Skip("this kernel does not report RssFile")
	}
	return n
}
