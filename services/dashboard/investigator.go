package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// Investigator is the service whose API the dashboard serves under its own origin.
type Investigator struct {
	// URL returns the current URL of the investigator, such as http://127.0.0.1:7490, or nothing.
	// It may be nil.
	URL func() string
	// Secret proves the dashboard to the investigator when it names the user that a proxy has
	// signed in. Empty: the investigator has to trust the address of the dashboard.
	Secret string
}

// Bounds of a forwarded request.
const (
	// maxForwarded is the largest body, in bytes, as the investigator has it. A larger one is 413.
	maxForwarded = 4 << 20
	// forwardTimeout bounds a request from its header to the end of the answer, which is cut then.
	// It is shorter than the time in which the server has to write the answer.
	forwardTimeout = 25 * time.Second
	// investigatorDial bounds the connection to the investigator.
	investigatorDial = 2 * time.Second
	// maxInvestigatorConns is how many requests are forwarded at a time; others wait.
	maxInvestigatorConns = 64
	// investigatorIdle is how long an unused connection is kept; the investigator keeps it for
	// longer, so that it closes none that is about to be used.
	investigatorIdle = httpserve.IdleTimeout / 2
	// maxHops is how many dashboards may forward a request one after the other.
	maxHops = 3
	// maxAnswerHeader bounds the header of an answer, in bytes.
	maxAnswerHeader = 64 << 10
)

// The headers that pass. All others are dropped: cookies, headers that could name a user to the
// investigator, and in answers those that the dashboard sets itself.
var (
	forwardedHeaders = []string{"Accept", "Accept-Encoding", "Content-Type", "Idempotency-Key"}
	answeredHeaders  = []string{"Allow", "Content-Encoding", "Content-Length", "Content-Type", "Retry-After", "Vary", "Www-Authenticate"}
)

// errNotAPI is returned for an answer that is none of the investigator's API.
var errNotAPI = errors.New("the answer is not JSON")

// forwarder forwards requests to the investigator.
type forwarder struct {
	investigator Investigator
	access       httpguard.Access
	// hop names this dashboard to others in the header Via, by which it knows a request that comes
	// back to it.
	hop string
	// proxySecret proves a proxy on this machine to the dashboard.
	proxySecret string
	// timeout is forwardTimeout but in tests.
	timeout   time.Duration
	transport *http.Transport
	log       *log.Logger
}

func newForwarder(cfg Config, access httpguard.Access) *forwarder {
	return &forwarder{
		investigator: cfg.Investigator, access: access, proxySecret: cfg.ProxySecret, timeout: forwardTimeout, hop: hopPrefix + rand.Text(),
		transport: &http.Transport{
			// Proxy is nil: the token goes to the investigator alone.
			DialContext:            (&net.Dialer{Timeout: investigatorDial}).DialContext,
			TLSHandshakeTimeout:    investigatorDial,
			MaxConnsPerHost:        maxInvestigatorConns,
			MaxIdleConnsPerHost:    maxInvestigatorConns,
			IdleConnTimeout:        investigatorIdle,
			MaxResponseHeaderBytes: maxAnswerHeader,
			DisableCompression:     true, // the client decides
		},
		log: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
}

// forward answers a request with the investigator's answer.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request) error {
	if !isAPIPath(r) {
		return httpserve.Refuse(http.StatusNotFound, "not found: the investigator's API has no such path")
	}
	if err := checkForwardable(r); err != nil {
		return err
	}
	hops := hopsOf(r)
	if slices.Contains(hops, f.hop) || len(hops) >= maxHops {
		return httpserve.Refuse(http.StatusLoopDetected, "the URL of the investigator leads to a dashboard: set TOCSIN_INVESTIGATOR_URL of the dashboard to the investigator")
	}
	proof, err := f.proof(r)
	if err != nil {
		return err
	}
	proof.Set("Via", strings.Join(append(hops, f.hop), ", "))
	target, err := f.target()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.timeout)
	defer cancel()
	r = r.WithContext(ctx)
	r.Body = http.MaxBytesReader(w, r.Body, maxForwarded)
	var failed error
	proxy := httputil.ReverseProxy{
		Transport: f.transport, ErrorLog: f.log, ModifyResponse: checkAnswer,
		Rewrite:      func(p *httputil.ProxyRequest) { rewrite(p, target, proof) },
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	proxy.ServeHTTP(w, r)
	if failed != nil {
		return f.explain(ctx, failed)
	}
	return nil
}

// hopPrefix begins the entries of dashboards in the header Via: a protocol, and a name.
const hopPrefix = "1.1 tocsin-dashboard-"

// hopsOf returns the entries of the dashboards that have forwarded a request. Those of other proxies
// are left out.
func hopsOf(r *http.Request) []string {
	var hops []string
	for entry := range strings.SplitSeq(strings.Join(r.Header.Values("Via"), ","), ",") {
		if entry = strings.TrimSpace(entry); strings.HasPrefix(entry, hopPrefix) {
			hops = append(hops, entry)
		}
	}
	return hops
}

// isAPIPath reports whether a path is one below the API, whose names and ids need no encoding: an
// encoded slash or dot could mean another path to the investigator than here.
func isAPIPath(r *http.Request) bool {
	sent, _, _ := strings.Cut(r.RequestURI, "?")
	below, ok := strings.CutPrefix(r.URL.Path, pathInvestigation+"/")
	if !ok || strings.Contains(sent, "%") {
		return false
	}
	for segment := range strings.SplitSeq(below, "/") {
		if strings.Trim(segment, ".") == "" || strings.ContainsFunc(segment, func(c rune) bool { return !isUnreserved(c) }) {
			return false
		}
	}
	return true
}

// isUnreserved reports whether a URL has a character as it is (RFC 3986, section 2.3).
func isUnreserved(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._~", c)
}

// checkForwardable returns why the body of a request is not forwarded, or nil. A page of another
// site can send no JSON without asking first.
func checkForwardable(r *http.Request) error {
	if r.ContentLength > maxForwarded {
		return httpserve.BodyTooLarge(maxForwarded, "")
	}
	types := r.Header.Values("Content-Type")
	if r.Method != http.MethodPost || len(types) == 0 && r.ContentLength == 0 {
		return nil
	}
	if len(types) == 1 {
		if media, _, err := mime.ParseMediaType(types[0]); err == nil && media == "application/json" {
			return nil
		}
	}
	return httpserve.Refuse(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
}

// proof returns the headers that prove a request to the investigator: of a user whom a proxy has
// signed in the name, of others the token that they sent, of a browser that signed in at the
// dashboard the dashboard's own token.
func (f *forwarder) proof(r *http.Request) (http.Header, error) {
	proof := http.Header{}
	user, err := f.access.Proxy.Author(r, f.proxySecret)
	if err != nil {
		return nil, httpserve.Refuse(http.StatusBadRequest, err.Error())
	}
	sent := r.Header.Get("Authorization")
	scheme, _, _ := strings.Cut(sent, " ")
	switch {
	case user != "": // what it sends as Authorization is for the proxy
		f.access.Proxy.SetUser(proof, user, f.investigator.Secret)
	case strings.EqualFold(scheme, "Bearer"):
		proof.Set("Authorization", sent)
		return proof, nil
	case !f.access.SignedIn(r):
		return proof, nil
	}
	if f.access.Token != "" {
		proof.Set("Authorization", "Bearer "+f.access.Token)
	}
	return proof, nil
}

// namesAuthor reports whether a trusted proxy names the author of a request to the API, or names one
// twice: forward refuses that, with a better answer than that a token is missing.
func (f *forwarder) namesAuthor(r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, pathInvestigation+"/") {
		return false
	}
	author, err := f.access.Proxy.Author(r, f.proxySecret)
	return author != "" || err != nil
}

// target returns where the investigator is.
func (f *forwarder) target() (*url.URL, error) {
	address := ""
	if f.investigator.URL != nil {
		address = f.investigator.URL()
	}
	if address == "" {
		return nil, httpserve.Refuse(http.StatusServiceUnavailable,
			"no investigator runs: start tocsin up with --investigator, or set TOCSIN_INVESTIGATOR_URL of the dashboard").Retry(httpserve.RetryAfter)
	}
	target, err := service.BaseURL(address)
	if err != nil {
		return nil, fmt.Errorf("the URL of the investigator %w", err)
	}
	return target, nil
}

// rewrite makes the request to the investigator, with the headers that pass and the proof. Host
// becomes that of the investigator, and Origin, which the dashboard has checked, is dropped.
func rewrite(p *httputil.ProxyRequest, target *url.URL, proof http.Header) {
	p.SetURL(target)
	p.Out.URL.RawQuery = p.In.URL.RawQuery // the investigator refuses what is malformed
	p.Out.Header, p.Out.Trailer = proof, nil
	for _, name := range forwardedHeaders {
		if values := p.In.Header.Values(name); len(values) > 0 {
			p.Out.Header[name] = slices.Clone(values)
		}
	}
}

// checkAnswer removes the headers of an answer that do not pass. The page's origin serves nothing
// but JSON for the investigator, and follows no redirect of it.
func checkAnswer(answer *http.Response) error {
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || media != "application/json" || answer.StatusCode < 200 || answer.StatusCode >= 300 && answer.StatusCode < 400 {
		return fmt.Errorf("%w: status %d", errNotAPI, answer.StatusCode)
	}
	kept := http.Header{"Cache-Control": {"no-store"}}
	for _, name := range answeredHeaders {
		if values := answer.Header.Values(name); len(values) > 0 {
			kept[name] = values
		}
	}
	answer.Header = kept
	return nil
}

// explain returns the refusal for an error, after which nothing was answered yet.
func (f *forwarder) explain(ctx context.Context, err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return httpserve.BodyTooLarge(maxForwarded, "")
	case errors.Is(err, errNotAPI):
		return httpserve.Refuse(http.StatusBadGateway, "what answers at the URL of the investigator is no investigator: "+err.Error())
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return httpserve.Refuse(http.StatusGatewayTimeout, fmt.Sprintf("the investigator did not answer within %s", f.timeout))
	}
	return httpserve.Refuse(http.StatusServiceUnavailable, "the investigator does not answer: "+err.Error()).Retry(httpserve.RetryAfter)
}

// announcedInvestigator returns the URL of the investigator that runs on a state directory.
func announcedInvestigator(dir statedir.Dir) func() string {
	return func() string {
		running, err := dir.Running()
		if err != nil {
			return ""
		}
		return running.InvestigatorURL
	}
}
