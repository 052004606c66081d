package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// doctorTimeout bounds one look.
	doctorTimeout = 3 * time.Second
	// lowDisk is where the streams' limits may no longer fit.
	lowDisk = 1 << 30
)

type doctorCommand struct {
	service.BusFlags
	service.LayoutFlags
	Token string `help:"Value of TOCSIN_TOKEN: beyond loopback what runs says what is wrong to those alone who have it." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	// Notify are those of its own environment, which the gateways of clients that
	// are started from here have too.
	Notify noticeSettings `embed:""`
}

// noticeSettings are not refused when they are read: to say what is wrong is what
// doctor is for.
type noticeSettings notify.Settings

// finding is one line of the doctor's: what was looked at, what is, and where
// something is wrong, the mend.
type finding struct{ what, is, mend string }

// Run prints what runs and what is wrong. Its error counts what is wrong.
func (c *doctorCommand) Run(ctx context.Context, env service.Env) error {
	d := doctor{env: env, flags: c.BusFlags, layout: c.Layout(), token: strings.TrimSpace(c.Token), notify: notify.Settings(c.Notify)}
	for _, look := range []func(context.Context) []finding{d.settings, d.stateDir, d.process, d.keys, d.intake, d.dashboard, d.bus, d.disk, d.notices, d.clients} {
		looked, cancel := context.WithTimeout(ctx, doctorTimeout)
		d.findings = append(d.findings, look(looked)...)
		cancel()
	}
	wrong := 0
	for i, f := range append(d.findings, d.warnings...) {
		mark := "ok  "
		switch {
		case i >= len(d.findings):
			mark = "WARN"
		case f.mend != "":
			mark = "BAD "
			wrong++
		}
		if _, err := fmt.Fprintf(env.Stdout, "%s %-16s %s\n", mark, f.what, f.is); err != nil {
			return err
		}
		if f.mend == "" {
			continue
		}
		if _, err := fmt.Fprintf(env.Stdout, "     mend: %s\n", f.mend); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d things are wrong: see the mends above", wrong, len(d.findings))
	}
	return nil
}

type doctor struct {
	env      service.Env
	flags    service.BusFlags
	layout   bus.Layout // what an external bus is to be like
	token    string
	notify   notify.Settings
	unusable bool // the state directory
	runtime  statedir.Runtime
	running  bool
	findings []finding
	// warnings are shown last, and nothing is wrong by them.
	warnings []finding
}

// warn adds a warning.
func (d *doctor) warn(what, is, mend string) {
	d.warnings = append(d.warnings, finding{what, is, mend})
}

// settings names the settings file that was read.
func (d *doctor) settings(context.Context) []finding {
	if file := d.env.SettingsFile; file != "" {
		return []finding{{what: "settings file", is: file}}
	}
	return []finding{{what: "settings file", is: "none: " + cmp.Or(service.UserFile(), "--config") + " would be read"}}
}

func (d *doctor) stateDir(context.Context) []finding {
	if d.flags.External() {
		return nil
	}
	err := statedir.Inspect(d.env.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []finding{{what: "state directory", is: d.env.StateDir + ", which tocsin up will make"}}
	case errors.Is(err, statedir.ErrVersion):
		d.unusable = true
		return []finding{{"state directory", err.Error(), "use the tocsin that made it, or set TOCSIN_STATE_DIR to another"}}
	case err != nil:
		d.unusable = true
		return []finding{{"state directory", err.Error(), "give it to this user, or set TOCSIN_STATE_DIR to another"}}
	}
	if warning, err := statedir.Exposure(d.env.StateDir); err == nil && warning != "" {
		d.warn("state directory", warning, "keep others out of it: chmod 700, or start tocsin up as its owner, which does it; with Kubernetes' fsGroup only containers of the pod can")
	}
	return []finding{{what: "state directory", is: d.env.StateDir}}
}

func (d *doctor) process(context.Context) []finding {
	if d.flags.External() {
		return []finding{{what: "bus", is: "external, " + withoutUsers(d.flags.NATSURL)}}
	}
	r, err := statedir.At(d.env.StateDir).Running()
	var silent *statedir.UnannouncedError
	switch {
	case err != nil && d.unusable:
		return []finding{{"tocsin up", err.Error(), "mend the state directory first"}}
	case errors.As(err, &silent):
		return []finding{{"tocsin up", err.Error(), "wait a few seconds: it writes runtime.json by itself; if it stays, restart that process"}}
	case err != nil && !errors.Is(err, statedir.ErrNotRunning):
		return []finding{{"tocsin up", err.Error(), "wait a few seconds: it writes runtime.json again; if it stays, restart tocsin up"}}
	case err != nil:
		return []finding{{"tocsin up", err.Error(), "start it: tocsin up (an MCP client's gateway also starts it)"}}
	}
	d.runtime, d.running = r, true
	out := []finding{{what: "tocsin up", is: fmt.Sprintf("pid %d, version %s", r.PID, r.Version)}}
	switch is := fmt.Sprintf("up is %s, this is %s", r.Version, d.env.Version.Version); {
	case newer(r.Version, d.env.Version.Version):
		out = append(out, finding{"version", is, "use that one here, too: this one is older"})
	case r.Version != d.env.Version.Version:
		out = append(out, finding{"version", is, "restart tocsin up with this binary"})
	}
	return out
}

// keys looks for the keys that the running bus had when it started.
func (d *doctor) keys(context.Context) []finding {
	dir := statedir.At(d.env.StateDir)
	if _, err := os.Stat(filepath.Dir(dir.Credential(""))); !d.running || err != nil {
		return nil // nothing runs, or what runs uses an external bus
	}
	var out []finding
	for _, role := range bus.Roles() {
		file := dir.Credential(string(role))
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, finding{"key of " + string(role), file + " is missing", "restart tocsin up: it makes what is missing"})
		case err != nil:
			out = append(out, finding{"key of " + string(role), err.Error(), "give it to this user, and restart tocsin up"})
		case info.Mode().Perm()&0o077 != 0:
			out = append(out, finding{"key of " + string(role), fmt.Sprintf("others can read %s (mode %04o)", file, info.Mode().Perm()), "remove it and restart tocsin up, which makes a new one"})
		}
	}
	return out
}

func (d *doctor) intake(ctx context.Context) []finding {
	if !d.running {
		return nil
	}
	if d.runtime.IngestURL == "" {
		return []finding{{"intake", "tocsin up runs without one", "restart tocsin up"}}
	}
	status, why, err := d.ready(ctx, d.runtime.IngestURL)
	switch {
	case err != nil:
		return []finding{{"intake", err.Error(), "restart tocsin up; its log is " + statedir.At(d.env.StateDir).Log() + " where a gateway started it"}}
	case strings.Contains(why, bus.ErrStore.Error()):
		return []finding{{"intake", fmt.Sprintf("not ready: %s", why), "free some space on the disk of " + d.env.StateDir + ": the store is used again by itself within 10 s"}}
	case status != http.StatusOK:
		return []finding{{"intake", "not ready: " + why, "wait a moment; if it stays, do what the reason says, or restart tocsin up"}}
	}
	otlp := "nothing listens at the usual port: it was taken, or is turned off; " + d.runtime.IngestURL + " takes OTLP too"
	if d.runtime.OTLPURL != "" {
		otlp = d.runtime.OTLPURL + " takes OTLP"
	}
	return []finding{{what: "intake", is: d.runtime.IngestURL + " is ready"}, {what: "otlp", is: otlp}}
}

func (d *doctor) dashboard(ctx context.Context) []finding {
	if !d.running {
		return nil
	}
	if d.runtime.DashboardURL == "" {
		return []finding{{"dashboard", "tocsin up runs without one", "restart tocsin up with this binary"}}
	}
	status, why, err := d.ready(ctx, d.runtime.DashboardURL)
	switch {
	case err != nil:
		return []finding{{"dashboard", err.Error(), "restart tocsin up; its log is " + statedir.At(d.env.StateDir).Log() + " where a gateway started it"}}
	case status != http.StatusOK:
		return []finding{{"dashboard", "not ready: " + why, "wait a moment; if it stays, do what the reason says, or restart tocsin up"}}
	}
	return []finding{{what: "dashboard", is: d.runtime.DashboardURL + " is ready"}}
}

// ready asks what listens at a URL whether it is ready, and why not.
func (d *doctor) ready(ctx context.Context, url string) (status int, why string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if why = strings.TrimSpace(string(body)); why == `{"ok":false}` {
		why = "the reason is for those who have the token: set TOCSIN_TOKEN and ask again"
	}
	return resp.StatusCode, why, errors.Join(readErr, resp.Body.Close())
}

func (d *doctor) bus(ctx context.Context) []finding {
	if !d.running && !d.flags.External() {
		return nil
	}
	cfg := d.env.Bus(d.flags)
	cfg.Name, cfg.Role = "tocsin doctor", bus.RoleGateway
	c, err := bus.Connect(ctx, cfg)
	if err != nil {
		return []finding{{"bus", err.Error(), "check TOCSIN_NATS_URL and TOCSIN_NATS_CREDS"}}
	}
	defer c.Close()
	if err := awaitBus(ctx, c); err != nil {
		return []finding{d.unreached(err)}
	}
	at := d.runtime.NATSURL
	if d.flags.External() {
		at = c.NC.ConnectedUrlRedacted()
	}
	out := []finding{{what: "bus", is: at + " answers"}}
	out = append(out, d.streams(ctx, c)...)
	watched := d.services(ctx, c) // before what may use up the time
	return append(append(out, d.detector(ctx, c)), watched...)
}

func (d *doctor) detector(ctx context.Context, c *bus.Conn) finding {
	m, err := c.NC.RequestWithContext(ctx, query.SubjectStatus, nil)
	if err != nil {
		return finding{"detector", "does not answer: " + err.Error(), "restart tocsin up, or start tocsin detector"}
	}
	if why := m.Header.Get(micro.ErrorHeader); why != "" {
		return finding{"detector", "answers: " + why, "wait a moment, look at what is wrong with the streams, and at the detector's log"}
	}
	var s query.StatusReply
	if err := json.Unmarshal(m.Data, &s); err != nil {
		return finding{"detector", "answers in a form of another version", "restart tocsin up with this binary"}
	}
	if why := s.Detector.Incomplete(); why != "" {
		return finding{"detector", why, "wait a moment, or start another tocsin detector"}
	}
	if !s.Detector.Ready {
		return finding{"detector", fmt.Sprintf("is reading what it missed, %d messages behind", s.Detector.Behind), "wait a moment"}
	}
	is := fmt.Sprintf("ready, apps seen: %d", len(s.Apps))
	if n := s.Detector.AppsNotTracked; n > 0 {
		is += fmt.Sprintf("; not tracked, because there are 1,000 others: %d", n)
	}
	if by := s.Detector.Rules; len(by) > 0 {
		is += "; rules: " + strings.Join(by, " or ")
	}
	if len(s.Detector.Rules) > 1 {
		return finding{"detector", is, "give all detectors the same --rules, --anomaly, --regression and --noise: which holds for an app depends on who owns it now"}
	}
	return finding{what: "detector", is: is}
}

func (d *doctor) disk(context.Context) []finding {
	if d.flags.External() {
		return nil
	}
	free, err := freeBytes(d.env.StateDir)
	if err != nil {
		return nil // said by stateDir
	}
	is := fmt.Sprintf("%d MiB free", free>>20)
	if free < lowDisk {
		return []finding{{"disk", is, "free some space: the streams may take about 1 GiB"}}
	}
	return []finding{{what: "disk", is: is}}
}

// notices looks at where notices are to go; nothing is sent there.
func (d *doctor) notices(context.Context) []finding {
	if err := d.notify.Validate(); err != nil {
		return []finding{{"notices", err.Error(), "correct it where it is set: a gateway that is started with it does not run"}}
	}
	if !d.notify.Any() {
		return nil
	}
	var to []string
	for where, on := range map[string]bool{
		"the desktop": d.notify.Desktop, d.notify.File: d.notify.File != "", "a webhook": d.notify.Webhook != "", "Slack": d.notify.Slack != "",
	} {
		if on {
			to = append(to, where)
		}
	}
	slices.Sort(to)
	return []finding{{what: "notices", is: "from level " + string(d.notify.Least()) + " on to " + strings.Join(to, " and ")}}
}
