package fold

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ciresult"
	others "github.com/tocsin-bus/tocsin/services/detector/external"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// Version is that of the snapshots: it changes with their form, and with the
// rules where a state would mean something else.
const Version = snapshot.Lifecycle

// Older versions are read, too: the log keeps an hour, and what was learned and
// set before is nowhere else. What they lack begins anew; of what version 4 found
// nobody says that it is over. Version 5 stood for a few commits only.
func readable(version uint32) bool {
	return version == Version || version == snapshot.Trust || version == snapshot.Resolutions || version == 4
}

// Errors of Restore. In both cases the state is unchanged, and as much of it as
// the log still holds is to be had by folding that from its start.
var (
	// ErrVersion says that a snapshot is of another version.
	ErrVersion = errors.New("snapshot of another version")
	// ErrDamaged says that a snapshot is not what Snapshot returned.
	ErrDamaged = snapshot.ErrDamaged
)

// A snapshot begins with a mark, its version and the checksum of the rest.
const (
	mark       = "tocsin fold\n"
	headerSize = len(mark) + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is the state, for Restore. Of apps that did not change since the
// last one it only copies the bytes.
func (f *Fold) Snapshot() ([]byte, error) {
	w := snapshot.NewWriter(make([]byte, headerSize, headerSize+f.written+f.written/8))
	w.Int(f.newest.UnixMilli())
	f.manual.Save(w)
	f.ci.Save(w)
	f.others.Save(w)
	f.storm.Save(w)
	w.Len(f.apps.Len())
	for name, known := range f.apps.All() {
		a := *known
		if a.encoded == nil {
			f.writer.Reset()
			a.save(&f.writer)
			a.encoded = bytes.Clone(f.writer.Bytes())
		}
		w.String(name)
		w.Raw(a.encoded)
	}
	f.spikes.save(w)
	f.escalations.save(w)
	f.budget.Save(w)
	f.strangers.save(w)
	data := w.Bytes()
	f.written = len(data)
	seal(data)
	return data, nil
}

// seal fills in the header of a snapshot.
func seal(data []byte) {
	copy(data, mark)
	binary.BigEndian.PutUint32(data[len(mark):], Version)
	binary.BigEndian.PutUint32(data[len(mark)+4:], crc32.Checksum(data[headerSize:], castagnoli))
}

// Restore replaces the state by a snapshot. What follows is the same as if the
// Fold had folded in itself what the snapshot had. On an error, which is
// ErrVersion or ErrDamaged, the state is unchanged.
func (f *Fold) Restore(data []byte) error {
	version, state, err := unseal(data)
	if err != nil {
		return fmt.Errorf("restore the detector's state: %w", err)
	}
	r := snapshot.NewReaderOf(version, state)
	next := New(f.cfg)
	next.newest = time.UnixMilli(r.Int()).UTC()
	next.manual = noise.RestoreManual(r)
	next.ci = ciresult.Restore(r)
	next.others = others.Restore(r)
	next.storm = ratelimit.Restore(r)
	for range r.Len(maxApps) {
		name := r.String(maxApp)
		encoded := r.Raw(len(state))
		if r.Err() != nil {
			break
		}
		of := snapshot.NewReaderOf(version, encoded)
		a := restoreApp(name, f.cfg.Rules.For(name), of)
		if !r.Has(snapshot.Lifecycle) {
			a.age.first, a.age.last = next.newest, next.newest
		}
		if err := of.Close(); err != nil {
			return fmt.Errorf("restore the detector's state of app %q: %w", name, err)
		}
		if version == Version {
			a.encoded = bytes.Clone(encoded)
		}
		next.addApp(a)
	}
	next.spikes = restoreSpikes(next.apps, r)
	if r.Has(snapshot.Trust) {
		if !r.Has(snapshot.Lifecycle) {
			restoreSpikes(next.apps, r) // those of the shadow mode, which is gone
		}
		next.escalations = restoreEscalations(next.apps, r)
	}
	if r.Has(snapshot.Lifecycle) {
		next.budget = ratelimit.RestoreBudget(r)
	}
	next.strangers = restoreStrangers(r)
	if err := r.Close(); err != nil {
		return fmt.Errorf("restore the detector's state: %w", err)
	}
	next.settle()
	next.shrink()
	next.forgotten = nil // nobody has heard of them since
	*f = *next
	return nil
}

// settle gives all apps what their rules need, and notes which of them have no history.
func (f *Fold) settle() {
	var newcomers []*app
	for _, known := range f.apps.All() {
		a := *known
		if a.settle(f.openOf(a), f.newest) {
			f.changed(a)
		}
		if !a.age.known() {
			newcomers = append(newcomers, a)
		}
		f.came = max(f.came, a.age.number)
	}
	slices.SortFunc(newcomers, func(a, b *app) int { return cmp.Compare(a.age.number, b.age.number) })
	for _, a := range newcomers {
		f.newcomers.Add(a.name, a)
	}
}

// maxApps is more apps than any configuration has.
const maxApps = 1 << 20

// unseal checks the header of a snapshot and takes it off.
func unseal(data []byte) (version uint32, state []byte, err error) {
	if len(data) < headerSize || string(data[:len(mark)]) != mark {
		return 0, nil, fmt.Errorf("%w: it begins with something else", ErrDamaged)
	}
	header, state := data[len(mark):headerSize], data[headerSize:]
	if version = binary.BigEndian.Uint32(header); !readable(version) {
		return 0, nil, fmt.Errorf("%w: %d, and this is %d", ErrVersion, version, Version)
	}
	if binary.BigEndian.Uint32(header[4:]) != crc32.Checksum(state, castagnoli) {
		return 0, nil, fmt.Errorf("%w: the checksum is wrong", ErrDamaged)
	}
	return version, state, nil
}
