package e2etest

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// parallel is the number of tests of a package that run at once. Tests mostly wait for timers
// and other processes, so it is more than the processors of a small machine.
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
