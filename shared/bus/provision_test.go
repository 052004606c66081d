package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// serverPermissions returns the permissions of a role as a server's options have them.
func serverPermissions(role bus.Role) *server.Permissions {
	p := role.Permissions()
	list := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: p.Publish},
		Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
	}
	if p.Replies > 0 {
		list.Response = &server.ResponsePermission{MaxMsgs: p.Replies, Expires: p.ReplyWithin}
	}
	return list
}

// users returns a user for each role, without a key: the password is the name of the role.
func users(roles ...bus.Role) []*server.User {
	var list []*server.User
	for _, role := range roles {
		list = append(list, &server.User{Username: string(role), Password: string(role), Permissions: serverPermissions(role)})
	}
	return list
}

// serveRoles runs a server with the roles and without streams. as connects as one of them.
func serveRoles(t *testing.T) (as func(bus.Role) *bus.Session) {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: users(append(bus.Roles(), bus.RoleProvisioner)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("timed out waiting for the server")
	}
	return func(role bus.Role) *bus.Session {
		t.Helper()
		c := connect(t, bus.Config{Name: string(role), Role: role, URL: strings.Replace(ns.ClientURL(), "://", fmt.Sprintf("://%s:%s@", role, role), 1)})
		bustest.Eventually(t, "connection", c.Connected)
		return c
	}
}

// TestServicesOnAPreparedBus checks that services, in their own roles, only check the streams,
// and that the error for a missing stream names the fix.
func TestServicesOnAPreparedBus(t *testing.T) {
	as := serveRoles(t)
	for _, role := range []bus.Role{bus.RoleIngest, bus.RoleDetector, bus.RoleGateway} {
		begun := time.Now()
		err := bus.Provision(t.Context(), as(role), bus.Layout{}, quiet())
		if took := time.Since(begun); !errors.Is(err, bus.ErrUnprovisioned) || !errors.Is(err, bus.ErrDenied) || took > 3*time.Second {
			t.Errorf("Provision of an empty bus as %s = %v after %s, want ErrUnprovisioned and ErrDenied within 3s", role, err, took)
		}
		for _, want := range []string{"run tocsin provision", bus.StreamTelemetry} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("Provision of an empty bus as %s = %v, want %q in it", role, err, want)
			}
		}
	}
	if err := bus.Provision(t.Context(), as(bus.RoleProvisioner), bus.Layout{}, quiet()); err != nil {
		t.Fatal(err)
	}
	for _, role := range []bus.Role{bus.RoleIngest, bus.RoleDetector, bus.RoleGateway, bus.RoleProvisioner} {
		if err := bus.Provision(t.Context(), as(role), bus.Layout{}, quiet()); err != nil {
			t.Errorf("Provision of a prepared bus as %s = %v, want nil", role, err)
		}
		if changes, err := bus.Plan(t.Context(), as(role), bus.Layout{}); err != nil || len(changes) != 0 {
			t.Errorf("Plan of a prepared bus as %s = %v, %v, want no changes", role, changes, err)
		}
	}
	admin := as(bus.RoleProvisioner)
	if err := admin.JS.DeleteKeyValue(t.Context(), bus.BucketOwners); err != nil {
		t.Fatal(err)
	}
	err := bus.Provision(t.Context(), as(bus.RoleDetector), bus.Layout{}, quiet())
	if !errors.Is(err, bus.ErrUnprovisioned) || !strings.Contains(err.Error(), "KV_"+bus.BucketOwners) {
		t.Errorf("Provision without a bucket = %v, want ErrUnprovisioned with the bucket's stream", err)
	}
}

// TestTheBucketsAreThoseOfTheClient checks that the streams of our buckets are configured as
// nats.go creates them, so that its calls accept them.
func TestTheBucketsAreThoseOfTheClient(t *testing.T) {
	theirs := connect(t, bus.Config{Name: "theirs", Role: bus.RoleProvisioner, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", theirs.Connected)
	const mib = 1 << 20
	for _, cfg := range []jetstream.KeyValueConfig{
		{Bucket: bus.BucketGateways, Description: "inbox position of each client", History: 1, TTL: 30 * 24 * time.Hour, MaxBytes: 16 * mib},
		{Bucket: bus.BucketSilences, Description: "silences and acknowledgements", History: 1, MaxBytes: 16 * mib},
	} {
		if _, err := theirs.JS.CreateKeyValue(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := theirs.JS.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{
		Bucket: bus.BucketDetector, Description: "snapshots of the detector's state", MaxBytes: 512 * mib,
	}); err != nil {
		t.Fatal(err)
	}
	changes, err := bus.Plan(t.Context(), theirs, bus.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		if strings.HasSuffix(change.Stream, bus.BucketGateways) || strings.HasSuffix(change.Stream, bus.BucketSilences) || strings.HasSuffix(change.Stream, bus.BucketDetector) {
			t.Errorf("Plan over the client's buckets changes %s: %s, want no change", change.Stream, change.Description)
		}
	}
	ours := connect(t, bus.Config{Name: "ours", Role: bus.RoleProvisioner, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", ours.Connected)
	if err := bus.Provision(t.Context(), ours, bus.Layout{}, quiet()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"KV_" + bus.BucketGateways, "KV_" + bus.BucketSilences, "OBJ_" + bus.BucketDetector} {
		var configs []jetstream.StreamConfig
		for _, c := range []*bus.Session{theirs, ours} {
			s, err := c.JS.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			configs = append(configs, s.CachedInfo().Config)
		}
		if !cmp.Equal(configs[0], configs[1]) {
			t.Errorf("stream %s (-client's +ours):\n%s", name, cmp.Diff(configs[0], configs[1]))
		}
	}
}

// TestPartitions checks on a real server how events are split into partitions.
func TestPartitions(t *testing.T) {
	const of = 4
	c := connect(t, bus.Config{Name: "p", Role: bus.RoleProvisioner, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", c.Connected)
	if err := bus.Provision(t.Context(), c, bus.Layout{Partitions: of}, quiet()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a layout of 0 partitions keeps the number
		if n, err := c.Partitions(t.Context()); err != nil || n != of {
			t.Fatalf("Partitions = %d, %v, want %d", n, err, of)
		}
		if err := bus.Provision(t.Context(), c, bus.Layout{}, quiet()); err != nil {
			t.Fatal(err)
		}
	}
	p, err := bus.NewPublisher(c, 64)
	if err != nil {
		t.Fatal(err)
	}
	const apps, each = 40, 3
	publish := func(subject, data string) uint64 {
		t.Helper()
		seq, err := p.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte(data), Header: nats.Header{bus.HeaderSender: {"test"}}})
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	var newest uint64
	for i := range each {
		for app := range apps {
			newest = publish(fmt.Sprintf("telemetry.app%d.log", app), fmt.Sprintf("%d/%d", app, i))
		}
	}
	if newest != apps*each {
		t.Errorf("sequence of the newest message = %d, want %d", newest, apps*each)
	}
	for _, subject := range []string{bus.SubjectIntakeCI, bus.SubjectIntakeAlerts, bus.SubjectIntakeNoise} {
		publish(subject, subject)
	}
	owner := map[string]int{} // of an app
	counts := map[string]int{}
	used := map[int]bool{}
	for partition := range of {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var last uint64
		next := map[string]int{}
		err := bustest.Follow(ctx, c, bus.FollowConfig{Stream: bus.StreamTelemetry, Subjects: bus.TelemetryOf(partition, of), Logger: quiet()}, func(m bus.Message) error {
			if m.Seq <= last || m.Header.Get(bus.HeaderSender) != "test" {
				t.Errorf("got message %d after %d with headers %v, want ascending sequences and the sender test", m.Seq, last, m.Header)
			}
			last = m.Seq
			if app, i, found := strings.Cut(string(m.Data), "/"); found {
				if was, seen := owner[app]; seen && was != partition {
					t.Errorf("app %s is in partitions %d and %d, want one", app, was, partition)
				}
				if want := fmt.Sprintf("telemetry.app%s.log.%d", app, partition); m.Subject != want {
					t.Errorf("app %s: subject = %s, want %s", app, m.Subject, want)
				}
				if i != fmt.Sprint(next[app]) {
					t.Errorf("app %s: got message %s, want %d", app, i, next[app])
				}
				next[app]++
				owner[app], used[partition] = partition, true
			}
			counts[string(m.Data)]++
			if m.Pending == 0 {
				cancel()
			}
			return nil
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(owner) != apps || len(used) != of {
		t.Errorf("got %d apps in %d partitions, want %d in %d", len(owner), len(used), apps, of)
	}
	for text, n := range counts {
		want := 1
		if text == bus.SubjectIntakeNoise {
			want = of
		}
		if n != want {
			t.Errorf("message %q came %d times, want %d", text, n, want)
		}
	}
	if want := apps*each + 3; len(counts) != want {
		t.Errorf("%d messages came, want %d", len(counts), want)
	}
	err = bus.Provision(t.Context(), c, bus.Layout{Partitions: 2}, quiet())
	if !errors.Is(err, bus.ErrIncompatible) || !strings.Contains(err.Error(), "TOCSIN_PARTITIONS to 4") {
		t.Errorf("Provision with 2 partitions = %v, want ErrIncompatible with TOCSIN_PARTITIONS to 4", err)
	}
}

// TestSplittingLater checks that a stream with messages stays unsplit, and that an empty one
// can be split.
func TestSplittingLater(t *testing.T) {
	c := connect(t, bus.Config{Name: "p", Role: bus.RoleProvisioner, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", c.Connected)
	if _, err := c.Partitions(t.Context()); err == nil || !strings.Contains(err.Error(), "tocsin provision") {
		t.Errorf("Partitions without a stream = %v, want an error with tocsin provision", err)
	}
	if err := bus.Provision(t.Context(), c, bus.Layout{}, quiet()); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Partitions(t.Context()); err != nil || n != 1 {
		t.Errorf("Partitions = %d, %v, want 1", n, err)
	}
	if _, err := c.JS.Publish(t.Context(), "telemetry.web.log", []byte("unsplit")); err != nil {
		t.Fatal(err)
	}
	err := bus.Provision(t.Context(), c, bus.Layout{Partitions: 2}, quiet())
	if !errors.Is(err, bus.ErrIncompatible) || !strings.Contains(err.Error(), "holds 1 message not split") {
		t.Errorf("Provision over a message that is not split = %v, want ErrIncompatible with the number of messages", err)
	}
	s, err := c.JS.Stream(t.Context(), bus.StreamTelemetry)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := bus.Provision(t.Context(), c, bus.Layout{Partitions: 2}, quiet()); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Partitions(t.Context()); err != nil || n != 2 {
		t.Errorf("Partitions = %d, %v, want 2", n, err)
	}
	if err := bus.Provision(t.Context(), c, bus.Layout{Replicas: 3}, quiet()); err == nil || !strings.Contains(err.Error(), "TOCSIN_REPLICAS") {
		t.Errorf("Provision with three replicas on one server = %v, want an error with TOCSIN_REPLICAS", err)
	}
	cfg := s.CachedInfo().Config
	cfg.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "telemetry.>", Destination: "telemetry.>"}
	if _, err := c.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Partitions(t.Context()); !errors.Is(err, bus.ErrIncompatible) {
		t.Errorf("Partitions with another subject transform = %v, want ErrIncompatible", err)
	}
}
