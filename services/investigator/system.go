package investigator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// The categories of warnings about the configuration. Those about servers are toolbox's.
const (
	categoryConfig = "config"
	categoryReload = "config_reload"
)

// maxConfigWarnings bounds the warnings about the file that are kept.
const maxConfigWarnings = 100

// warnings keeps what a person should know about the configuration. It is safe for concurrent use.
type warnings struct {
	mu   sync.Mutex
	list []warning
}

// warning is an entry of GET /system/warnings.
type warning struct {
	ID        string       `json:"id"`
	Category  string       `json:"category"`
	Message   string       `json:"message"`
	Details   string       `json:"details"`
	ServerID  *string      `json:"server_id"`
	CreatedAt session.Time `json:"created_at"`
}

func newWarning(category, message, details, server string, at time.Time) warning {
	sum := sha256.Sum256([]byte(strings.Join([]string{category, server, message}, "\x00")))
	w := warning{ID: hex.EncodeToString(sum[:8]), Category: category, Message: message, Details: details, CreatedAt: session.Time(at)}
	if server != "" {
		w.ServerID = &server
	}
	return w
}

// loaded replaces the warnings by those of a file that was read.
func (w *warnings) loaded(found config.Warnings, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = nil
	for _, p := range found[:min(len(found), maxConfigWarnings)] {
		w.list = append(w.list, newWarning(categoryConfig, p.String(), "", "", now))
	}
}

// failed notes that the file could not be loaded again.
func (w *warnings) failed(err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = slices.DeleteFunc(w.list, func(old warning) bool { return old.Category == categoryReload })
	w.list = append(w.list, newWarning(categoryReload, "the changed configuration is not used, because it has errors; the last good one stays in force", err.Error(), "", now))
}

func (w *warnings) all() []warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

func (h *handler) systemWarnings(r *http.Request) (any, error) {
	if err := withoutParameters(r); err != nil {
		return nil, err
	}
	list := h.warnings.all()
	for _, w := range h.registry.Warnings() {
		list = append(list, newWarning(w.Category, w.Message, w.Details, w.ServerID, w.Since))
	}
	return struct {
		Warnings []warning `json:"warnings"`
	}{orEmpty(list)}, nil
}

// serverStatus is a server of GET /system/mcp-servers.
type serverStatus struct {
	toolbox.Status
	LastCheck *session.Time `json:"last_check"`
}

func (h *handler) mcpServers(r *http.Request) (any, error) {
	if err := withoutParameters(r); err != nil {
		return nil, err
	}
	servers := []serverStatus{h.builtinStatus()}
	for _, s := range h.registry.Statuses() {
		servers = append(servers, serverStatus{s, (*session.Time)(s.LastCheck)})
	}
	return struct {
		Servers []serverStatus `json:"servers"`
	}{servers}, nil
}

// builtinStatus returns the state of the built-in server. It is checked now: it needs the bus alone.
func (h *handler) builtinStatus() serverStatus {
	now := session.Time(time.Now())
	s := serverStatus{toolbox.Status{ID: config.BuiltinServer, Healthy: true, Tools: []toolbox.ToolStatus{}}, &now}
	if err := h.reachable(); err != nil {
		s.Healthy, s.Error = false, err.Error()
	}
	for _, t := range new(builtinServer).tools() {
		s.Tools = append(s.Tools, toolbox.ToolStatus{Name: t.Definition.Name, Description: t.Definition.Description, ReadOnly: true, Offered: true})
	}
	return s
}

// defaultServer is a server that the agents of an alert type use, in the form in which an alert
// chooses servers.
type defaultServer struct {
	Name  string   `json:"name"`
	Tools []string `json:"tools"`
}

func (h *handler) defaultTools(r *http.Request) (any, error) {
	p, err := parametersOf(r.URL.Query(), "alert_type")
	if err != nil {
		return nil, err
	}
	cfg := h.config()
	alertType := cmp.Or(p["alert_type"], cfg.Defaults.AlertType)
	plan, err := cfg.Plan(config.PlanRequest{AlertType: alertType})
	if err != nil {
		return nil, badRequest("%v", err)
	}
	statuses := h.registry.Statuses()
	servers := []defaultServer{}
	for _, stage := range plan.Stages {
		for _, agent := range stage.Agents {
			for _, s := range agent.Servers {
				if !slices.ContainsFunc(servers, func(known defaultServer) bool { return known.Name == s.Name }) {
					servers = append(servers, defaultServer{s.Name, offeredTools(statuses, s.Name)})
				}
			}
		}
	}
	return struct {
		AlertType string          `json:"alert_type"`
		ChainID   string          `json:"chain_id"`
		Servers   []defaultServer `json:"servers"`
	}{alertType, plan.Chain, servers}, nil
}

func offeredTools(statuses []toolbox.Status, server string) []string {
	names := []string{}
	if server == config.BuiltinServer { // it is not in the registry
		for _, t := range new(builtinServer).tools() {
			names = append(names, t.Definition.Name)
		}
	}
	for _, s := range statuses {
		if s.ID != server {
			continue
		}
		for _, t := range s.Tools {
			if t.Offered {
				names = append(names, t.Name)
			}
		}
	}
	return names
}

func (h *handler) systemConfig(r *http.Request) (any, error) {
	if err := withoutParameters(r); err != nil {
		return nil, err
	}
	return h.config().Redacted(), nil
}

func (h *handler) alertTypes(r *http.Request) (any, error) {
	if err := withoutParameters(r); err != nil {
		return nil, err
	}
	type alertType struct {
		Type    string `json:"type"`
		ChainID string `json:"chain_id"`
	}
	types := []alertType{}
	for _, t := range h.config().AlertTypes() {
		types = append(types, alertType{t.Type, t.Chain})
	}
	return struct {
		AlertTypes []alertType `json:"alert_types"`
		Default    string      `json:"default"`
	}{types, h.config().Defaults.AlertType}, nil
}

func (h *handler) runbooks(r *http.Request) (any, error) {
	if err := withoutParameters(r); err != nil {
		return nil, err
	}
	urls := []string{}
	if url := h.config().Defaults.Runbook; strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		urls = append(urls, url)
	}
	return urls, nil
}

// errIndexing is returned while the sessions that are stored were not all read.
var errIndexing = errors.New("the stored sessions are being read")

// ready returns why no session can be submitted, or nil.
func (h *handler) ready() error {
	if err := h.reachable(); err != nil {
		return err
	}
	b := h.backend.Load()
	switch {
	case b == nil:
		return bus.ErrUnreachable
	case !b.index.ready():
		return errIndexing
	}
	return nil
}

// check is one part of GET /health.
type check struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// health answers as the system did that this one replaces. It needs no token, so beyond loopback
// it gives no reasons.
func (h *handler) health(r *http.Request) (httpserve.Answer, error) {
	status, code := "healthy", http.StatusOK
	busCheck, servers := check{Status: status}, check{Status: status}
	for _, s := range h.registry.Statuses() {
		if s.LastCheck != nil && !s.Healthy {
			servers.Status, status = "degraded", "degraded"
			servers.Message = "some MCP servers can't be used: see /api/v1/system/mcp-servers"
		}
	}
	if err := h.ready(); err != nil {
		status, code = "unhealthy", http.StatusServiceUnavailable
		busCheck = check{Status: status, Message: err.Error()}
	}
	if h.access.CheckRead(r) != nil {
		busCheck.Message, servers.Message = "", ""
	}
	return httpserve.JSON(code, struct {
		Status  string           `json:"status"`
		Version string           `json:"version"`
		Checks  map[string]check `json:"checks"`
	}{status, h.version, map[string]check{"bus": busCheck, "mcp_servers": servers}})
}
