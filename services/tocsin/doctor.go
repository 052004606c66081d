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
	// doctorTimeout bounds one check.
	doctorTimeout = 3 * time.Second
	// lowDisk is the free space, in bytes, below which the streams may not reach their limits.
	lowDisk = 1 << 30
)

type doctorCommand struct {
	service.BusFlags
	service.LayoutFlags
	Token string `help:"Value of TOCSIN_TOKEN. Services that listen beyond loopback give the reasons of a failed check only with it." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
	// Notify has the settings of this environment. Gateways of clients that are started from
	// here have the same.
	Notify noticeSettings `embed:""`
}

// noticeSettings are the settings of notices without their validation: a wrong setting is
// a finding of doctor, and not an error of its command line.
type noticeSettings notify.Settings

// finding is the result of one check.
type finding struct {
	check, result string
	// fix is what to do; empty where nothing is wrong.
	fix string
	// unset marks what is not set up, which is no fault.
	unset bool
}

// failed returns the finding of a check that failed.
func failed(check, result, fix string) finding {
	return finding{check: check, result: result, fix: fix}
}

// mark returns the first word of the finding's line.
func (f finding) mark() string {
	switch {
	case f.fix != "":
		return "FAIL"
	case f.unset:
		return "--"
	}
	return "ok"
}

// Run prints the result of each check. Its error counts the checks that failed.
func (c *doctorCommand) Run(ctx context.Context, env service.Env) error {
	d := doctor{env: env, flags: c.BusFlags, layout: c.Layout(), token: strings.TrimSpace(c.Token), notify: notify.Settings(c.Notify)}
	for _, check := range []func(context.Context) []finding{d.settings, d.stateDir, d.process, d.keys, d.ingest, d.dashboard, d.investigator, d.bus, d.disk, d.notices, d.clients} {
		checkCtx, cancel := context.WithTimeout(ctx, doctorTimeout)
		d.findings = append(d.findings, check(checkCtx)...)
		cancel()
	}
	out, failures := printer{w: env.Stdout}, 0
	for _, f := range d.findings {
		out.finding(f.mark(), f)
		if f.fix != "" {
			failures++
		}
	}
	for _, f := range d.warnings {
		out.finding("WARN", f)
	}
	if out.err == nil && failures > 0 {
		return fmt.Errorf("%d of %d checks failed: each FAIL line is followed by its fix", failures, len(d.findings))
	}
	return out.err
}

// finding prints a finding, and on a second line its fix.
func (p *printer) finding(mark string, f finding) {
	p.line(fmt.Sprintf("%-4s %-16s %s", mark, f.check, f.result))
	if f.fix != "" {
		p.line("     fix: " + f.fix)
	}
}

type doctor struct {
	env    service.Env
	flags  service.BusFlags
	layout bus.Layout // the layout that an external bus should have
	token  string
	notify notify.Settings
	// unusable is set when the state directory can't be used.
	unusable bool
	// runtime is what runs on the state directory, if running is set.
	runtime  statedir.Runtime
	running  bool
	findings []finding
	// warnings are printed last, and do not count as failed.
	warnings []finding
}

// warn adds a warning.
func (d *doctor) warn(check, result, fix string) {
	d.warnings = append(d.warnings, finding{check: check, result: result, fix: fix})
}

// settings reports which settings file was read.
func (d *doctor) settings(context.Context) []finding {
	if file := d.env.SettingsFile; file != "" {
		return []finding{{check: "settings file", result: file}}
	}
	return []finding{{check: "settings file", result: "none; " + cmp.Or(service.UserFile(), "--config") + " would be read"}}
}

func (d *doctor) stateDir(context.Context) []finding {
	if d.flags.External() {
		return nil
	}
	err := statedir.Inspect(d.env.StateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []finding{{check: "state directory", result: d.env.StateDir + ", which tocsin up will create"}}
	case errors.Is(err, statedir.ErrVersion):
		d.unusable = true
		return []finding{failed("state directory", err.Error(), "use the version of tocsin that created it, or set TOCSIN_STATE_DIR to another directory")}
	case err != nil:
		d.unusable = true
		return []finding{failed("state directory", err.Error(), "make this user its owner, or set TOCSIN_STATE_DIR to another directory")}
	}
	if warning, err := statedir.Exposure(d.env.StateDir); err == nil && warning != "" {
		d.warn("state directory", warning, "run chmod 700 on it, or start tocsin up as its owner, which does so; with Kubernetes' fsGroup, only containers of the pod have access")
	}
	return []finding{{check: "state directory", result: d.env.StateDir}}
}

func (d *doctor) process(context.Context) []finding {
	if d.flags.External() {
		return []finding{{check: "bus", result: "external, " + withoutUsers(d.flags.NATSURL)}}
	}
	r, err := statedir.At(d.env.StateDir).Running()
	var unannounced *statedir.UnannouncedError
	switch {
	case err != nil && d.unusable:
		return []finding{failed("tocsin up", err.Error(), "fix the state directory first")}
	case errors.As(err, &unannounced):
		return []finding{failed("tocsin up", err.Error(), "wait a few seconds until it writes runtime.json; if it does not, restart that process")}
	case err != nil && !errors.Is(err, statedir.ErrNotRunning):
		return []finding{failed("tocsin up", err.Error(), "wait a few seconds until it writes runtime.json again; if it does not, restart tocsin up")}
	case err != nil:
		return []finding{failed("tocsin up", err.Error(), "start it: tocsin up (the gateway of an MCP client starts it, too)")}
	}
	d.runtime, d.running = r, true
	out := []finding{{check: "tocsin up", result: fmt.Sprintf("pid %d, version %s", r.PID, r.Version)}}
	switch result := fmt.Sprintf("tocsin up is %s, this is %s", r.Version, d.env.Version.Version); {
	case newer(r.Version, d.env.Version.Version):
		out = append(out, failed("version", result, "use that version here, too: this one is older"))
	case r.Version != d.env.Version.Version:
		out = append(out, failed("version", result, "restart tocsin up with this version"))
	}
	return out
}

// keys checks the files of the keys that the running bus created at its start.
func (d *doctor) keys(context.Context) []finding {
	dir := statedir.At(d.env.StateDir)
	if _, err := os.Stat(filepath.Dir(dir.Credential(""))); !d.running || err != nil {
		return nil // nothing runs, or on an external bus
	}
	var out []finding
	for _, role := range bus.Roles() {
		file := dir.Credential(string(role))
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, failed("key of "+string(role), file+" is missing", "restart tocsin up, which creates it"))
		case err != nil:
			out = append(out, failed("key of "+string(role), err.Error(), "make this user its owner, and restart tocsin up"))
		case info.Mode().Perm()&0o077 != 0:
			out = append(out, failed("key of "+string(role), fmt.Sprintf("other users can read %s (mode %04o)", file, info.Mode().Perm()), "remove it and restart tocsin up, which creates a new one"))
		}
	}
	return out
}

func (d *doctor) ingest(ctx context.Context) []finding {
	if !d.running {
		return nil
	}
	if d.runtime.IngestURL == "" {
		return []finding{failed("ingest", "tocsin up runs without it", "restart tocsin up")}
	}
	status, why, err := d.ready(ctx, d.runtime.IngestURL)
	switch {
	case err != nil:
		return []finding{failed("ingest", err.Error(), "restart tocsin up; if a gateway started it, its log is "+statedir.At(d.env.StateDir).Log())}
	case strings.Contains(why, bus.ErrStore.Error()):
		return []finding{failed("ingest", fmt.Sprintf("not ready: %s", why), "free space on the disk of "+d.env.StateDir+"; the store is then used again within 10 s")}
	case status != http.StatusOK:
		return []finding{failed("ingest", "not ready: "+why, "wait a moment; if it does not get ready, follow the reason, or restart tocsin up")}
	}
	otlp := finding{check: "otlp", result: d.runtime.OTLPURL + " accepts OTLP"}
	if d.runtime.OTLPURL == "" {
		otlp = finding{check: "otlp", result: "not listening at its own port, which was taken or is turned off; " + d.runtime.IngestURL + " accepts OTLP, too", unset: true}
	}
	return []finding{{check: "ingest", result: d.runtime.IngestURL + " is ready"}, otlp}
}

func (d *doctor) dashboard(ctx context.Context) []finding {
	if !d.running {
		return nil
	}
	if d.runtime.DashboardURL == "" {
		return []finding{failed("dashboard", "tocsin up runs without it", "restart tocsin up with this version")}
	}
	status, why, err := d.ready(ctx, d.runtime.DashboardURL)
	switch {
	case err != nil:
		return []finding{failed("dashboard", err.Error(), "restart tocsin up; if a gateway started it, its log is "+statedir.At(d.env.StateDir).Log())}
	case status != http.StatusOK:
		return []finding{failed("dashboard", "not ready: "+why, "wait a moment; if it does not get ready, follow the reason, or restart tocsin up")}
	}
	return []finding{{check: "dashboard", result: d.runtime.DashboardURL + " is ready"}}
}

// ready asks the service at a URL whether it is ready. reason is why it is not.
func (d *doctor) ready(ctx context.Context, url string) (status int, reason string, err error) {
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
	if reason = strings.TrimSpace(string(body)); reason == `{"ok":false}` {
		reason = "the service gives the reason only with the token; set TOCSIN_TOKEN and run this again"
	}
	return resp.StatusCode, reason, errors.Join(readErr, resp.Body.Close())
}

func (d *doctor) bus(ctx context.Context) []finding {
	if !d.running && !d.flags.External() {
		return nil
	}
	cfg := d.env.Bus(d.flags)
	cfg.Name, cfg.Role = "tocsin doctor", bus.RoleGateway
	c, err := bus.Connect(ctx, cfg)
	if err != nil {
		return []finding{failed("bus", err.Error(), "check TOCSIN_NATS_URL and TOCSIN_NATS_CREDS")}
	}
	defer c.Close()
	if err := awaitBus(ctx, c); err != nil {
		return []finding{d.unreachable(err)}
	}
	url := d.runtime.NATSURL
	if d.flags.External() {
		url = c.NC.ConnectedUrlRedacted()
	}
	out := []finding{{check: "bus", result: "connected to " + url}}
	out = append(out, d.streams(ctx, c)...)
	services := d.services(ctx, c) // before the detector, which may use up the time
	return append(append(out, d.detector(ctx, c)), services...)
}

func (d *doctor) detector(ctx context.Context, c *bus.Session) finding {
	m, err := c.NC.RequestWithContext(ctx, query.SubjectStatus, nil)
	if err != nil {
		return failed("detector", "does not answer: "+err.Error(), "restart tocsin up, or start tocsin detector")
	}
	if why := m.Header.Get(micro.ErrorHeader); why != "" {
		return failed("detector", "answers with an error: "+why, "wait a moment; then check the streams above and the detector's log")
	}
	var s query.StatusReply
	if err := json.Unmarshal(m.Data, &s); err != nil {
		return failed("detector", "answers in the format of another version", "restart tocsin up with this version")
	}
	if why := s.Detector.Incomplete(); why != "" {
		return failed("detector", why, "wait a moment, or start another tocsin detector")
	}
	if !s.Detector.Ready {
		return failed("detector", fmt.Sprintf("catching up, %d messages left", s.Detector.Behind), "wait a moment")
	}
	result := fmt.Sprintf("ready, apps seen: %d", len(s.Apps))
	if n := s.Detector.AppsNotTracked; n > 0 {
		result += fmt.Sprintf("; apps not tracked, because of the limit of 1,000: %d", n)
	}
	if rules := s.Detector.Rules; len(rules) > 0 {
		result += "; rules: " + strings.Join(rules, " or ")
	}
	if len(s.Detector.Rules) > 1 {
		return failed("detector", result, "give all detectors the same --rules, --anomaly, --regression and --noise: the detector that owns an app decides by its own")
	}
	return finding{check: "detector", result: result}
}

func (d *doctor) disk(context.Context) []finding {
	if d.flags.External() {
		return nil
	}
	free, err := freeBytes(d.env.StateDir)
	if err != nil {
		return nil // stateDir reports it
	}
	result := fmt.Sprintf("%d MiB free", free>>20)
	if free < lowDisk {
		return []finding{failed("disk", result, "free some space: the streams may use about 1 GiB")}
	}
	return []finding{{check: "disk", result: result}}
}

// notices checks where the messages of agents are sent, without sending any.
func (d *doctor) notices(context.Context) []finding {
	if err := d.notify.Validate(); err != nil {
		return []finding{failed("notices", err.Error(), "correct it where it is set: a gateway does not start with it")}
	}
	if !d.notify.HasSink() {
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
	return []finding{{check: "notices", result: "sent to " + strings.Join(to, " and ") + " from level " + string(d.notify.MinLevel()) + " on"}}
}
