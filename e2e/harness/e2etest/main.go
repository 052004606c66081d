package e2etest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// parallel is how many tests of a package run at once. It is more than there are
// processors on a small machine: most of the time a test waits for timers and for
// other processes.
const parallel = "4"

// Main runs the tests of a package, several at once. The -parallel flag takes precedence.
func Main(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallel); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
