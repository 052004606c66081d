package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseProgram takes the pages of the program's file out of this process. Most were
// needed once, for initialisation and the command line: of the 38 MB of a gateway that has
// just started, 31 MB are such pages, and 13 MB a minute after they were released. A page
// that is needed again comes from the page cache, where it stays for all processes.
func releaseProgram() error {
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("read the memory map: %w", err)
	}
	defer func() { _ = smaps.Close() }() // it was only read
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	var all []mapping
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		all = addMapLine(all, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the memory map: %w", err)
	}
	for _, m := range all {
		if !m.releasable(exe) {
			continue
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release pages of the program: %w", errno)
		}
	}
	return nil
}

// mapping is a part of this process's memory, as /proc/self/smaps describes it.
type mapping struct {
	from, to    uintptr
	permissions string
	path        string
	// changed reports whether a page may differ from the file.
	changed bool
}

// addMapLine adds the mapping that a line begins, or the attribute in it to the last one.
func addMapLine(all []mapping, line string) []mapping {
	words := strings.Fields(line)
	if len(words) == 0 {
		return all
	}
	if name, isAttribute := strings.CutSuffix(words[0], ":"); isAttribute {
		if name == "Anonymous" && len(all) > 0 && len(words) > 1 {
			all[len(all)-1].changed = words[1] != "0"
		}
		return all
	}
	m := mapping{changed: true}
	if n, err := fmt.Sscanf(words[0], "%x-%x", &m.from, &m.to); n != 2 || err != nil || len(words) < 6 {
		return append(all, mapping{changed: true}) // not of a file
	}
	m.permissions, m.path = words[1], strings.Join(words[5:], " ")
	return append(all, m)
}

// releasable reports whether all pages of a mapping can be read from the program's file
// again.
func (m mapping) releasable(program string) bool {
	return m.path == program && !m.changed && (m.permissions == "r-xp" || m.permissions == "r--p")
}
