package process

import (
	"os"
	"syscall"
)

// executable is a link that stays valid when the file was replaced by an upgrade.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Readlink(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// guardedAttributes let the program die with a guard that was killed by hand. The guard starts it
// on the main thread, which lives as long as the process.
func guardedAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
