package embedded_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
)

// TestDamagedStore checks that the error names the damaged file and the fix at once, and that the
// store stays as it is.
func TestDamagedStore(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, stream string) (file string){
		"meta.inf is truncated": func(t *testing.T, stream string) string {
			file := filepath.Join(stream, "meta.inf")
			if err := os.Truncate(file, 20); err != nil {
				t.Fatal(err)
			}
			return file
		},
		"meta.inf is empty": func(t *testing.T, stream string) string {
			file := filepath.Join(stream, "meta.inf")
			if err := os.Truncate(file, 0); err != nil {
				t.Fatal(err)
			}
			return file
		},
		"meta.sum is wrong": func(t *testing.T, stream string) string {
			if err := os.WriteFile(filepath.Join(stream, "meta.sum"), []byte("0123456789abcdef"), 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(stream, "meta.inf")
		},
		"meta.sum is missing": func(t *testing.T, stream string) string {
			file := filepath.Join(stream, "meta.sum")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			return file
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bustest.OpenDir(t)
			bustest.StartWith(t, embedded.Config{Dir: dir}).Stop()
			stream := filepath.Join(dir.JetStream(), "jetstream", "$G", "streams", bus.StreamAlerts)
			file := damage(t, stream)
			before, err := os.ReadDir(stream)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			s, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Addr: "127.0.0.1:0", Logger: bustest.Quiet()})
			if err == nil {
				s.Close()
				t.Fatal("Start = nil, want an error")
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("Start took %s, want at most 5s", took)
			}
			for _, want := range []string{file, "move it away", "restore " + stream + " "} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Start = %v, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("Start = %q, want one line", err)
			}
			after, err := os.ReadDir(stream)
			if err != nil || len(after) != len(before) {
				t.Errorf("%d files after Start, %v, want the %d from before", len(after), err, len(before))
			}
			// The fix in the message works.
			if err := os.Rename(stream, filepath.Join(t.TempDir(), "kept")); err != nil {
				t.Fatal(err)
			}
			bustest.StartWith(t, embedded.Config{Dir: dir})
		})
	}
}

func TestStartInACancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := embedded.Start(ctx, embedded.Config{
		Dir: bustest.OpenDir(t), Addr: "127.0.0.1:0", Logger: bustest.Quiet(), WSGuard: func(*http.Request) error { return nil },
	})
	if err == nil {
		s.Close()
		t.Fatal("Start = nil, want an error")
	}
}
