package harness

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// ErrNotLinux is returned where a process cannot be examined.
var ErrNotLinux = errors.New("only Linux shows the open files of a process")

// HasSocket reports whether the process has an open socket, such as its connection
// to the bus.
func (p *Process) HasSocket() (bool, error) {
	if runtime.GOOS != "linux" {
		return false, ErrNotLinux
	}
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.PID()), "fd", "*"))
	if err != nil {
		return false, err
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "socket:") {
			return true, nil
		}
	}
	return false, nil
}
