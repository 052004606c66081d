package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/services/gateway/lines"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// bodyTimeout bounds how slow the body of a request may come.
const bodyTimeout = 10 * time.Second

// guard says who may come in over HTTP.
type guard struct {
	policy httpguard.Policy
	// access says who may: for MCP every request counts as a write.
	access httpguard.Access
	// pages are what is no MCP, by path.
	pages map[string]http.Handler
}

func newGuard(at HTTPConfig) *guard {
	return &guard{
		policy: httpguard.Policy{AllowedHosts: at.AllowedHosts, AllowedOrigins: at.AllowedOrigins}.ListeningOn(at.Addr),
		access: httpguard.Access{Token: strings.TrimSpace(at.Token), Beyond: at.beyond, Proxy: at.Proxy},
	}
}

// admit refuses those who may not, and answers what is no MCP.
func (g *guard) admit(w http.ResponseWriter, r *http.Request) bool {
	if err := g.policy.CheckHost(r); err != nil {
		refuse(w, http.StatusForbidden, err.Error())
		return false
	}
	switch g.policy.Origin(r) {
	case httpguard.None, httpguard.Own:
	case httpguard.Configured:
		allowPage(w.Header(), r)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return false
		}
	case httpguard.LoopbackOrigin, httpguard.Foreign:
		refuse(w, http.StatusForbidden, "origin not allowed: only programs may, and pages whose origin is in TOCSIN_ALLOWED_ORIGINS")
		return false
	}
	if page := g.pages[r.URL.Path]; page != nil {
		page.ServeHTTP(w, r)
		return false
	}
	if r.URL.Path != "/" && r.URL.Path != pathMCP {
		refuse(w, http.StatusNotFound, "not found: MCP is at "+pathMCP)
		return false
	}
	return g.prove(w, g.access.CheckWrite(r))
}

// prove refuses those who did not prove themselves.
func (g *guard) prove(w http.ResponseWriter, err error) bool {
	if err == nil {
		return true
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	refuse(w, http.StatusUnauthorized, err.Error())
	return false
}

// allowPage lets the page of a configured origin read the answer.
func allowPage(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, "+headerProtocol+", "+headerSession+", "+headerClient)
	h.Set("Access-Control-Expose-Headers", headerSession+", "+headerProtocol)
	h.Add("Vary", "Origin")
}

// refuse answers with an error as JSON-RPC has them, of no request.
func refuse(w http.ResponseWriter, status int, why string) {
	text, err := encode(sanitize.Visible(why))
	if err != nil {
		text = `"refused"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`+"\n", jsonrpc.CodeInvalidRequest, text) // nobody to tell
}

// limit gives a request bodyTimeout to arrive, whoever it is from: what is refused
// is read to its end as well, by net/http.
func limit(w http.ResponseWriter) error { return readBy(w, time.Now().Add(bodyTimeout)) }

func readBy(w http.ResponseWriter, deadline time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(deadline)
	if errors.Is(err, http.ErrNotSupported) { // as of a recorder
		return nil
	}
	return err
}

// readBody reads the whole body of a request, within the time and the size that
// it may have, and leaves it there to be read again. From then on the connection
// has all the time it wants.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, lines.Max))
	if err != nil {
		return nil, err
	}
	if err := readBy(w, time.Time{}); err != nil {
		return nil, err
	}
	if r.Method != http.MethodPost {
		return nil, nil
	}
	body = mcpevents.StampBody(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return body, nil
}

// refuseBody says what was wrong with a body.
func refuseBody(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a message must have at most %d bytes", lines.Max))
		return
	}
	refuse(w, http.StatusRequestTimeout, fmt.Sprintf("a request must arrive within %s", bodyTimeout))
}
