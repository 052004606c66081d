//go:build unix

package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/process"
)

// The test binary is also the program that it starts: what it does is its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "play-family": // starts a grandchild, writes both numbers, ignores the end of its input
			grandchild := exec.Command("/proc/self/exe", "play-sleeper")
			if err := grandchild.Start(); err != nil {
				panic(err)
			}
			fmt.Println(os.Getpid(), grandchild.Process.Pid)
			time.Sleep(time.Hour) // an empty select is a deadlock to the runtime
		case "play-filter": // starts a grandchild, writes both numbers, and ends with its input
			grandchild := exec.Command("/proc/self/exe", "play-sleeper")
			if err := grandchild.Start(); err != nil {
				panic(err)
			}
			fmt.Println(os.Getpid(), grandchild.Process.Pid)
			_, _ = io.Copy(io.Discard, os.Stdin)
			return
		case "play-sleeper":
			time.Sleep(time.Hour)
		case "play-owner": // starts a family or a filter through the package, as the investigator does
			p, err := process.Start("/proc/self/exe", os.Args[2:], nil)
			if err != nil {
				panic(err)
			}
			line, _ := bufio.NewReader(p.Stdout).ReadString('\n')
			fmt.Print(line)
			time.Sleep(time.Hour) // an empty select is a deadlock to the runtime
		case "play-environment":
			directory, _ := os.Getwd()
			files, _ := os.ReadDir(directory)
			fmt.Printf("%s\n%d\n%s\n", directory, len(files), strings.Join(os.Environ(), "\n"))
			return
		case "play-complaint":
			fmt.Fprint(os.Stderr, strings.Repeat("x", process.MaxStderr)+"\nthe last line\n")
			os.Exit(3)
		}
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, play string, env ...string) *process.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(self, []string{play}, env)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// numbers reads the process numbers that play-family writes.
func numbers(t *testing.T, r io.Reader) []int {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("reading the process numbers: %v", err)
	}
	var pids []int
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatalf("got %q, want two process numbers", line)
	}
	return pids
}

// gone waits for the end of processes; a zombie that is not reaped yet counts as ended.
func gone(t *testing.T, pids ...int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d still runs: %s", pid, stat)
			}
			runtime.Gosched()
		}
	}
}

func linuxOnly(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test looks at /proc")
	}
}

func TestCloseKillsTheGroup(t *testing.T) {
	linuxOnly(t)
	p := start(t, "play-family")
	pids := numbers(t, p.Stdout)
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	gone(t, pids...)
}

// kill -9 of the one that started it ends the program and its child, whether the program ignores
// the end of its input or ends with it.
func TestDeathOfTheOwnerKillsTheGroup(t *testing.T) {
	linuxOnly(t)
	for _, play := range []string{"play-family", "play-filter"} {
		t.Run(play, func(t *testing.T) {
			owner := exec.Command("/proc/self/exe", "play-owner", play)
			owner.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			out, err := owner.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			pids := numbers(t, out)
			directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pids[0]))
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = owner.Wait()
			gone(t, pids...)
			if _, err := os.Stat(directory); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the working directory %s: %v, want it removed", directory, err)
			}
		})
	}
}

// A program that ends leaves no child behind.
func TestEndOfTheProgramKillsTheGroup(t *testing.T) {
	linuxOnly(t)
	p := start(t, "play-filter")
	pids := numbers(t, p.Stdout)
	if err := p.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if got, want := p.Exit(), "exit status 0"; got != want {
		t.Errorf("Exit = %q, want %q", got, want)
	}
	gone(t, pids...)
}

// A guard that is killed by hand takes the program with it, and its group.
func TestDeathOfTheGuardKillsTheGroup(t *testing.T) {
	linuxOnly(t)
	p := start(t, "play-family")
	pids := numbers(t, p.Stdout)
	group, err := syscall.Getpgid(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(group, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	gone(t, pids...)
}

func TestEnvironmentAndDirectory(t *testing.T) {
	t.Setenv("NEEDLE", "secret")
	p := start(t, "play-environment", "A=1", "B=2")
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if got := strings.Join(lines[1:], " "); got != "0 A=1 B=2" && got != "0 A=1 B=2 PWD="+lines[0] {
		t.Errorf("files and environment = %q, want %q", got, "0 A=1 B=2")
	}
	if !strings.HasPrefix(filepath.Base(lines[0]), "tocsin-mcp-") {
		t.Errorf("working directory = %s", lines[0])
	}
	<-p.Done()
	if _, err := os.Stat(lines[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the working directory: %v, want it removed", err)
	}
}

func TestStderrAndExit(t *testing.T) {
	p := start(t, "play-complaint")
	<-p.Done()
	if got := p.Exit(); got != "exit status 3" {
		t.Errorf("Exit = %q, want exit status 3", got)
	}
	if got := p.Stderr(); got != "the last line\n" {
		t.Errorf("Stderr = %.100q, want the last line alone", got)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := process.Start("tocsin-no-such-program", nil, nil); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("Start = %v, want %v", err, exec.ErrNotFound)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(broken, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Exit() != "exit status 127" || !strings.Contains(p.Stderr(), "cannot start") {
		t.Errorf("Exit = %q, Stderr = %q, want 127 and the reason", p.Exit(), p.Stderr())
	}
	_ = p.Close()
}
