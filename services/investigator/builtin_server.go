package investigator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/recent"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Bounds of the answers of the built-in server.
const (
	// queryWait bounds the wait for the newest messages, and for a detector's answer.
	queryWait = 2 * time.Second
	// maxAnswer bounds an answer, in bytes. Entries beyond it are left out, and counted.
	maxAnswer = 96 << 10
	// defaultEntries and maxEntries bound the entries of an answer.
	defaultEntries = 20
	maxEntries     = 100
	// maxFilter bounds a text of the arguments, in bytes.
	maxFilter = 1 << 10
	// defaultPeriod is how far back a query goes, and maxPeriod how far at most: as long as
	// the bus keeps alerts.
	defaultPeriod = time.Hour
	maxPeriod     = 7 * 24 * time.Hour
)

// builtinServer answers the tools of the MCP server "tocsin": read-only queries. It takes no alert
// out of an inbox, and shows nothing of investigations.
type builtinServer struct {
	window *busWindow
	// ask asks a service on the bus, see [bus.Ask].
	ask func(ctx context.Context, subject string, request any) ([]byte, error)
	// mask masks the text of an answer.
	mask func(string) string
	now  func() time.Time
}

// Builtins returns the tools for an agent with the given servers: none where it does not have the
// built-in one.
func (b *builtinServer) Builtins(servers []session.Server) []toolbox.Builtin {
	i := slices.IndexFunc(servers, func(s session.Server) bool { return s.Name == config.BuiltinServer })
	if i < 0 {
		return nil
	}
	patterns := servers[i].Tools
	return slices.DeleteFunc(b.tools(), func(t toolbox.Builtin) bool {
		return len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, t.Definition.Name)
			return ok && err == nil
		})
	})
}

// tools returns all tools.
func (b *builtinServer) tools() []toolbox.Builtin {
	return []toolbox.Builtin{
		builtin(b, "alerts", "Stored alerts of Tocsin, newest first. Each is shown as it was stored last, with whether it is still open. "+
			"Use it to see what else went wrong at the same time, or whether the same alert came before. With id it returns one alert.", b.alerts),
		builtin(b, "events", "Events that apps sent: log lines, failed or slow requests, web vitals, user actions, memory, circuit breakers, "+
			"security reports; newest first, of at most the last hour. Use it for the log lines and requests around the time of the alert.", b.events),
		builtin(b, "ci", "The newest results of CI runs, with the names and messages of failed tests; newest first. "+
			"Use it to see whether a commit or a deploy came before the alert.", b.results),
		builtin(b, "kubernetes", "Faults and warnings of Kubernetes clusters, newest first: crashes, out of memory, failed image pulls, stalled deployments, "+
			"with restarts and exit codes. With logs it returns the ends of the logs of failed containers, captured at the fault.", b.kubernetes),
	}
}

// The arguments of the tools.
type (
	alertsArgs struct {
		ID       string `json:"id,omitempty" jsonschema:"id of one alert; the other arguments are then not used"`
		App      string `json:"app,omitempty" jsonschema:"exact name of an app; default: all"`
		Category string `json:"category,omitempty" jsonschema:"category of the alerts; default: all"`
		Severity string `json:"severity,omitempty" jsonschema:"least severity; default: info"`
		Open     bool   `json:"open,omitempty" jsonschema:"only alerts that are neither resolved nor repeated later"`
		periodArgs
		limitArgs
	}
	eventsArgs struct {
		Kinds    []string `json:"kinds,omitempty" jsonschema:"kinds of events; default: all"`
		App      string   `json:"app,omitempty" jsonschema:"exact name of an app; default: all"`
		URL      string   `json:"url,omitempty" jsonschema:"part of the URL of the page or request"`
		Severity string   `json:"severity,omitempty" jsonschema:"least severity; default: info"`
		periodArgs
		limitArgs
	}
	ciArgs struct {
		periodArgs
	}
	kubernetesArgs struct {
		Cluster   string `json:"cluster,omitempty" jsonschema:"name of a cluster; default: all"`
		Namespace string `json:"namespace,omitempty" jsonschema:"namespace; default: all"`
		Workload  string `json:"workload,omitempty" jsonschema:"name of a workload, pod or node, with or without its kind, such as Deployment/web; pods of a workload match"`
		App       string `json:"app,omitempty" jsonschema:"exact name of an app; default: all"`
		Severity  string `json:"severity,omitempty" jsonschema:"least severity; default: info"`
		Logs      bool   `json:"logs,omitempty" jsonschema:"return the logs of failed containers"`
		periodArgs
		limitArgs
	}
	periodArgs struct {
		Since string `json:"since,omitempty" jsonschema:"how far back, such as 15m, 2h or 7d (at most 7d); default: 1h"`
	}
	limitArgs struct {
		Limit int `json:"limit,omitempty" jsonschema:"largest number of entries, 1 to 100; default: 20"`
	}
)

// enums are the values of arguments with few of them.
var enums = map[string][]string{
	"severity": texts(alert.Severities()),
	"category": texts(alert.Categories()),
	"kinds":    texts(telemetry.Kinds()),
}

func texts[S ~string](all []S) []string {
	list := make([]string, len(all))
	for i, s := range all {
		list[i] = string(s)
	}
	return list
}

// answer is what a tool returns, as JSON.
type answer struct {
	Entries []any `json:"entries"`
	// More is how many entries match and are left out.
	More int `json:"more,omitempty"`
	// Notes name what is missing.
	Notes []string `json:"notes,omitempty"`
}

// encode encodes the answer within [maxAnswer]: the last entries are left out first.
func (a answer) encode() (string, error) {
	if a.Entries == nil {
		a.Entries = []any{}
	}
	for {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(a); err != nil {
			return "", fmt.Errorf("encode the answer: %w", err)
		}
		if b.Len() <= maxAnswer || len(a.Entries) == 0 {
			return strings.TrimSuffix(b.String(), "\n"), nil
		}
		n := max(1, len(a.Entries)/4)
		a.Entries, a.More = a.Entries[:len(a.Entries)-n], a.More+n
	}
}

// builtin returns a tool whose arguments are a T.
func builtin[T any](b *builtinServer, name, description string, run func(context.Context, T) (answer, error)) toolbox.Builtin {
	return toolbox.Builtin{
		Definition: toolbox.Tool{
			Server: config.BuiltinServer, Name: name, Description: description, Schema: schemaOf[T](), ReadOnly: true, Repeatable: true, Offered: true,
		},
		Mask: b.mask,
		Func: func(ctx context.Context, raw json.RawMessage) toolbox.Result {
			args, err := argumentsOf[T](raw)
			var a answer
			if err == nil {
				a, err = run(ctx, args)
			}
			var text string
			if err == nil {
				text, err = a.encode()
			}
			if err != nil {
				return toolbox.Result{Text: err.Error(), IsError: true}
			}
			return toolbox.Result{Text: text}
		},
	}
}

// schemaOf returns the JSON schema of arguments. They are types of this file, so it does not fail.
func schemaOf[T any]() json.RawMessage {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err)
	}
	for name, p := range schema.Properties {
		if name == "kinds" {
			p.Type, p.Types = "array", nil
			p = p.Items
		}
		for _, value := range enums[name] {
			p.Enum = append(p.Enum, value)
		}
	}
	if limit := schema.Properties["limit"]; limit != nil {
		limit.Minimum, limit.Maximum = jsonschema.Ptr(1.0), jsonschema.Ptr(float64(maxEntries))
	}
	data, err := json.Marshal(schema)
	if err != nil {
		panic(err)
	}
	return data
}

// argumentsOf reads arguments. The error is for the model.
func argumentsOf[T any](raw json.RawMessage) (args T, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&args); err != nil {
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &wrong):
			name := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
			return args, fmt.Errorf("the argument %s must be of type %s, not %s", name, wrong.Type, wrong.Value)
		default:
			return args, fmt.Errorf("the arguments can't be used: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return args, errors.New("the arguments must be one JSON object")
	}
	return args, nil
}

// since returns the time from which on a query looks.
func (p periodArgs) since(now time.Time) (time.Time, error) {
	period := defaultPeriod
	if p.Since != "" {
		var err error
		if period, err = parsePeriod(p.Since); err != nil || period <= 0 || period > maxPeriod {
			return time.Time{}, fmt.Errorf("since must be a duration such as 15m, 2h or 7d, and at most 7d; it is %q", cutFilter(p.Since))
		}
	}
	return now.Add(-period), nil
}

// parsePeriod is time.ParseDuration with whole days.
func parsePeriod(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func (l limitArgs) limit() (int, error) {
	switch {
	case l.Limit == 0:
		return defaultEntries, nil
	case l.Limit < 0 || l.Limit > maxEntries:
		return 0, fmt.Errorf("limit must be from 1 to %d; it is %d", maxEntries, l.Limit)
	}
	return l.Limit, nil
}

// checkTexts returns an error for a text that is too long.
func checkTexts(list ...string) error {
	for _, text := range list {
		if len(text) > maxFilter {
			return fmt.Errorf("an argument has %d bytes, at most %d are allowed", len(text), maxFilter)
		}
	}
	return nil
}

// cutFilter returns the beginning of an argument, for an error.
func cutFilter(text string) string { return session.Head(text, 64) }

// checkValue returns an error for a value that an enumeration does not have.
func checkValue(name, value string) error {
	if value == "" || slices.Contains(enums[name], value) {
		return nil
	}
	return fmt.Errorf("%s must be one of %s; it is %q", name, strings.Join(enums[name], ", "), cutFilter(value))
}

// read waits for the newest messages of a stream, and returns the notes of the answer.
func (b *builtinServer) read(ctx context.Context, stream string) []string {
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	var notes []string
	for _, m := range b.window.catchUp(ctx, stream) {
		notes = append(notes, "missing: "+m)
	}
	return notes
}

// alertEntry is an alert of an answer.
type alertEntry struct {
	Alert      alert.Alert `json:"alert"`
	Open       bool        `json:"open"`
	ResolvedBy string      `json:"resolved_by,omitempty"`
	FirstSeen  string      `json:"first_seen"`
}

func entryOf(a recent.Alert) alertEntry {
	a.Investigation = nil
	return alertEntry{Alert: a.Alert, Open: a.Open(), ResolvedBy: a.ResolvedBy, FirstSeen: alert.FormatTime(a.First)}
}

func (b *builtinServer) alerts(ctx context.Context, args alertsArgs) (answer, error) {
	since, err := args.since(b.now())
	limit, err2 := args.limit()
	if err := errors.Join(err, err2, checkTexts(args.ID, args.App), checkValue("category", args.Category), checkValue("severity", args.Severity)); err != nil {
		return answer{}, err
	}
	a := answer{Notes: b.read(ctx, bus.StreamAlerts)}
	b.window.view(func(l *recent.Alerts, _ *recent.Clusters, _ *recent.Results) {
		if args.ID != "" {
			found, ok := l.ByID(args.ID)
			if !ok {
				err = fmt.Errorf("no alert that is remembered has the id %q; call alerts without id to see them", cutFilter(args.ID))
				return
			}
			a.Entries = append(a.Entries, entryOf(found))
			return
		}
		q := recent.AlertQuery{App: args.App, Category: alert.Category(args.Category), MinRank: alert.Severity(args.Severity).Rank(), Since: since, Open: args.Open}
		var found []recent.Alert
		found, a.More = l.Find(q, limit)
		for _, one := range found {
			a.Entries = append(a.Entries, entryOf(one))
		}
		if l.Dropped() {
			a.Notes = append(a.Notes, fmt.Sprintf("only the newest %d alerts are remembered", recent.MaxAlerts))
		}
	})
	return a, err
}

func (b *builtinServer) events(ctx context.Context, args eventsArgs) (answer, error) {
	since, err := args.since(b.now())
	limit, err2 := args.limit()
	err = errors.Join(err, err2, checkTexts(args.App, args.URL), checkValue("severity", args.Severity))
	kinds := make([]telemetry.Kind, 0, len(enums["kinds"]))
	for _, k := range args.Kinds {
		err = errors.Join(err, checkValue("kinds", k))
		if kind := telemetry.Kind(k); kind != "" && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryWait)
	defer cancel()
	data, err := b.ask(ctx, query.SubjectEvents, query.EventsRequest{
		Kinds: kinds, App: args.App, URL: args.URL, MinRank: alert.Severity(args.Severity).Rank(), Since: since, Limit: limit, Paged: true,
	})
	var refused *bus.RefusedError
	switch {
	case errors.Is(err, bus.ErrNoAnswer):
		return answer{}, errors.New("no detector answers, so events can't be read now; go on without them")
	case errors.As(err, &refused):
		return answer{}, fmt.Errorf("the detector refused the query: %w", err)
	case err != nil:
		return answer{}, fmt.Errorf("events can't be read now: %w", err)
	}
	var reply query.EventsReply
	if err := json.Unmarshal(data, &reply); err != nil {
		return answer{}, fmt.Errorf("the detector's answer can't be read: %w", err)
	}
	a := answer{More: reply.Older}
	for _, e := range reply.Events {
		e.Position = query.EventPosition{}
		a.Entries = append(a.Entries, e)
	}
	if note := reply.Incomplete(); note != "" {
		a.Notes = append(a.Notes, note)
	}
	return a, nil
}

// resultEntry is a CI result of an answer.
type resultEntry struct {
	Received string    `json:"received"`
	Result   ci.Result `json:"result"`
}

func (b *builtinServer) results(ctx context.Context, args ciArgs) (answer, error) {
	since, err := args.since(b.now())
	if err != nil {
		return answer{}, err
	}
	a := answer{Notes: b.read(ctx, bus.StreamCI)}
	b.window.view(func(_ *recent.Alerts, _ *recent.Clusters, r *recent.Results) {
		for _, one := range r.Newest(since) {
			result := one.Result
			if n := len(result.Failures) - maxEntries; n > 0 {
				result.Failures = result.Failures[:maxEntries]
				a.Notes = append(a.Notes, fmt.Sprintf("%d more failures of %s are left out", n, result.Name))
			}
			a.Entries = append(a.Entries, resultEntry{Received: alert.FormatTime(one.Received), Result: result})
		}
	})
	return a, nil
}

// messageEntry is a message of a cluster of an answer.
type messageEntry struct {
	Received string         `json:"received"`
	Severity alert.Severity `json:"severity"`
	kube.Message
}

func (b *builtinServer) kubernetes(ctx context.Context, args kubernetesArgs) (answer, error) {
	since, err := args.since(b.now())
	limit, err2 := args.limit()
	if err := errors.Join(err, err2, checkTexts(args.Cluster, args.Namespace, args.Workload, args.App), checkValue("severity", args.Severity)); err != nil {
		return answer{}, err
	}
	a := answer{Notes: b.read(ctx, bus.StreamKubernetes)}
	b.window.view(func(_ *recent.Alerts, c *recent.Clusters, _ *recent.Results) {
		q := recent.ClusterQuery{
			App: args.App, Cluster: args.Cluster, Namespace: args.Namespace, Workload: args.Workload, MinRank: alert.Severity(args.Severity).Rank(), Since: since, Logs: args.Logs,
		}
		var found []recent.ClusterMessage
		found, a.More = c.Find(q, limit)
		for _, m := range found {
			if !args.Logs {
				m.Logs = nil
			}
			a.Entries = append(a.Entries, messageEntry{Received: alert.FormatTime(m.Received), Severity: m.Severity(), Message: m.Message})
		}
		if since.Before(b.now().Add(-kubernetesBefore)) || c.Dropped() {
			a.Notes = append(a.Notes, fmt.Sprintf("messages that are older than %.0f h, or than the newest %d, may be missing", kubernetesBefore.Hours(), recent.MaxClusterMessages))
		}
	})
	return a, nil
}
