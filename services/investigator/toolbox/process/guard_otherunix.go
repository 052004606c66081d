//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// guardedAttributes are none: without Linux, a program outlives a guard that is killed by hand until
// the investigator, which sees the guard end, kills the group.
func guardedAttributes() *syscall.SysProcAttr { return nil }
