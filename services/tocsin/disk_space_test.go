package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRoomFor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		store int64
		want  uint64
	}{
		{0, mib}, {8 * mib, mib}, {16 * mib, 2 * mib}, {30 * mib, 30 * mib / 8}, {512 * mib, 64 * mib}, {2 << 30, 64 * mib},
	} {
		if got := requiredSpace(c.store); got != c.want {
			t.Errorf("a store of %d bytes: got %d, want %d", c.store, got, c.want)
		}
	}
}

func TestHasRoom(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store", "streams")
	if err := checkSpace(dir, store); err != nil {
		t.Errorf("without a store: got %v, want room", err)
	}
	if err := os.MkdirAll(store, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.blk", "2.blk"} {
		if err := os.WriteFile(filepath.Join(store, name), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := treeSize(filepath.Dir(store)); got != 2000 {
		t.Errorf("the store's size: got %d, want 2000", got)
	}
	if err := checkSpace(dir, store); err != nil {
		t.Errorf("got %v, want room", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want the store alone", left, err)
	}
	if err := checkSpace(filepath.Join(dir, "gone"), store); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a directory that is gone: got %v, want an error that names it", err)
	}
}
