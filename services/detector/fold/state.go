package fold

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/ciresult"
	others "github.com/tocsin-bus/tocsin/services/detector/external"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/oldsnapshot"
	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// Version is the version of snapshots, the first with numbered fields. New fields need no
// new version. It changes where an older detector would misread a snapshot.
const Version = 9

// Errors of Restore. The state is unchanged then; as much of it as the log still holds can
// be rebuilt from its start.
var (
	// ErrVersion is returned for a snapshot of an unknown version.
	ErrVersion = errors.New("snapshot of another version")
	// ErrDamaged is returned for data that Snapshot did not return.
	ErrDamaged = snapshot.ErrDamaged
)

// A snapshot begins with the mark, its version and the checksum of the rest.
const (
	mark       = "tocsin fold\n"
	headerSize = len(mark) + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot returns the state, for [Fold.Restore]. Apps that have not changed since the last
// snapshot are only copied.
func (f *Fold) Snapshot() ([]byte, error) {
	data := snapshot.Append(make([]byte, headerSize, headerSize+f.snapshotSize+f.snapshotSize/8), f.state)
	f.snapshotSize = len(data)
	fillHeader(data)
	return data, nil
}

// state reads or writes everything that a Fold remembers.
func (f *Fold) state(s *snapshot.Codec) {
	s.Time(1, &f.newest)
	snapshot.Message(s, 2, f.manual, (*noise.Manual).State)
	snapshot.Message(s, 3, f.ci, (*ciresult.Results).State)
	snapshot.Message(s, 4, f.external, (*others.Alerts).State)
	snapshot.Message(s, 5, f.storm, (*ratelimit.Limiter).State)
	f.stateApps(s)
	f.stateIncidents(s)
	snapshot.Message(s, 8, f.budget, (*ratelimit.Budget).State)
	snapshot.Message(s, 9, &f.untracked, (*untrackedApps).state)
}

// savedApp is an app in a snapshot.
type savedApp struct {
	name    string
	encoded []byte
}

func (a *savedApp) state(s *snapshot.Codec) {
	s.String(1, &a.name, maxApp)
	s.Raw(2, &a.encoded)
}

func (f *Fold) stateApps(s *snapshot.Codec) {
	saved := make([]savedApp, 0, f.apps.Len())
	for name, stored := range f.apps.All() {
		a := *stored
		if a.encoded == nil {
			f.buffer = snapshot.Append(f.buffer[:0], a.state)
			a.encoded = bytes.Clone(f.buffer)
		}
		saved = append(saved, savedApp{name, a.encoded})
	}
	snapshot.List(s, 6, &saved, maxApps, (*savedApp).state)
	if !s.Reading() {
		return
	}
	for _, read := range saved {
		a := f.emptyApp(read.name)
		if err := snapshot.Read(read.encoded, a.state); err != nil {
			s.Fail("app %q: %v", read.name, err)
			return
		}
		a.encoded = bytes.Clone(read.encoded)
		f.addApp(a)
	}
}

// savedIncident is an open incident in a snapshot. It names its rule by number.
type savedIncident struct {
	app  string
	rule protowire.Number
	rule.Incident
}

func (i *savedIncident) state(s *snapshot.Codec) {
	s.String(1, &i.app, maxApp)
	snapshot.Uint(s, 2, &i.rule, math.MaxInt32)
	s.Hash(3, &i.Key)
	s.String(4, &i.ID, idLen)
	s.String(5, &i.Title, maxTitle)
	s.String(6, &i.Name, maxTitle)
}

// maxTitle bounds the title of an incident in a snapshot, in bytes.
const maxTitle = 4 << 10

func (f *Fold) stateIncidents(s *snapshot.Codec) {
	var saved []savedIncident
	for index, open := range f.incidents.open {
		for key, incident := range open.All() {
			saved = append(saved, savedIncident{key.app.name, table[index].number, *incident})
		}
	}
	snapshot.List(s, 7, &saved, maxIncidents*len(table), (*savedIncident).state)
	if !s.Reading() {
		return
	}
	for _, read := range saved {
		// The rule may no longer exist, and there may be room for fewer apps now.
		if index, a := indexOf(read.rule), f.apps.Peek(read.app); index >= 0 && a != nil {
			f.incidents.add(*a, index, read.Incident)
		}
	}
}

// fillHeader fills in the header of a snapshot.
func fillHeader(data []byte) {
	copy(data, mark)
	binary.BigEndian.PutUint32(data[len(mark):], Version)
	binary.BigEndian.PutUint32(data[len(mark)+4:], crc32.Checksum(data[headerSize:], castagnoli))
}

// Restore replaces the state by a snapshot, also one of an earlier version (package
// oldsnapshot). On an error, which wraps ErrVersion or ErrDamaged, the state is unchanged.
func (f *Fold) Restore(data []byte) error {
	version, state, err := splitHeader(data)
	if err == nil && version < Version {
		state, err = oldsnapshot.Convert(version, state)
	}
	if err != nil {
		return fmt.Errorf("restore the detector's state: %w", err)
	}
	next := New(f.cfg)
	if err := snapshot.Read(state, next.state); err != nil {
		return fmt.Errorf("restore the detector's state: %w", err)
	}
	next.switchRules()
	next.evictToFit()
	next.forgotten = nil // callers did not know these apps
	*f = *next
	return nil
}

// switchRules starts and drops variants of rules in all apps by the configuration, and lists
// the apps without history.
func (f *Fold) switchRules() {
	var newcomers []*app
	for _, stored := range f.apps.All() {
		a := *stored
		if a.switchRules(f.newest) {
			f.recordChange(a)
		}
		if !a.age.hasHistory() {
			newcomers = append(newcomers, a)
		}
		f.created = max(f.created, a.age.number)
	}
	slices.SortFunc(newcomers, func(a, b *app) int { return cmp.Compare(a.age.number, b.age.number) })
	for _, a := range newcomers {
		f.newcomers.Add(a.name, a)
	}
}

// maxApps bounds the apps in a snapshot. No configuration has more.
const maxApps = 1 << 20

// splitHeader checks the header of a snapshot and returns the state behind it.
func splitHeader(data []byte) (version uint32, state []byte, err error) {
	if len(data) < headerSize || string(data[:len(mark)]) != mark {
		return 0, nil, fmt.Errorf("%w: it begins with something else", ErrDamaged)
	}
	header, state := data[len(mark):headerSize], data[headerSize:]
	if version = binary.BigEndian.Uint32(header); version != Version && !oldsnapshot.Readable(version) {
		return 0, nil, fmt.Errorf("%w: %d, and this is %d", ErrVersion, version, Version)
	}
	if binary.BigEndian.Uint32(header[4:]) != crc32.Checksum(state, castagnoli) {
		return 0, nil, fmt.Errorf("%w: the checksum is wrong", ErrDamaged)
	}
	return version, state, nil
}
