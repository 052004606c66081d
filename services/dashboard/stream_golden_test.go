package dashboard

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStreamFormat compares a stream, as readers get it, with a golden file.
func TestStreamFormat(t *testing.T) {
	var got bytes.Buffer
	got.Write(hello)
	got.Write(alertFrame(41, []byte(`{"id":"a","severity":"error","title":"Server error: POST /api/users → 500"}`)))
	got.Write(heartbeatComment)
	got.Write(droppedEvent(3))
	got.Write(alertFrame(18446744073709551615, []byte(`{"id":"b"}`)))
	const file = "testdata/stream.golden"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
}
