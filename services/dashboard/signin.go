package dashboard

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

const (
	// signInCookie holds the proof of a sign-in.
	signInCookie = "tocsin_session"
	// signInLife is how long a sign-in lasts.
	signInLife = 12 * time.Hour
	// maxSignIns is how many last at once. One more ends the oldest.
	maxSignIns = 256
)

// signIns are the browsers whose people signed in with the token. A cookie holds a
// random text and nothing of the token, so that who gets to see one can neither learn
// the token nor use the cookie for longer than signInLife; here is only its hash. They
// end with the process.
type signIns struct {
	mu sync.Mutex
	// ends says by the hash of a cookie's value when its sign-in ends.
	ends map[[sha256.Size]byte]time.Time
}

func newSignIns() *signIns { return &signIns{ends: map[[sha256.Size]byte]time.Time{}} }

// begin returns the value of the cookie of a new sign-in.
func (s *signIns) begin(now time.Time) string {
	value := rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, end := range s.ends {
		if !now.Before(end) {
			delete(s.ends, hash)
		}
	}
	if len(s.ends) >= maxSignIns {
		delete(s.ends, s.oldest())
	}
	s.ends[sha256.Sum256([]byte(value))] = now.Add(signInLife)
	return value
}

func (s *signIns) oldest() (hash [sha256.Size]byte) {
	var first time.Time
	for h, end := range s.ends {
		if first.IsZero() || end.Before(first) {
			hash, first = h, end
		}
	}
	return hash
}

// has reports whether a cookie's value is that of a sign-in that lasts. It is looked up
// by its hash, so the time that takes says nothing of those that there are.
func (s *signIns) has(value string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.ends[sha256.Sum256([]byte(value))]
	return ok && now.Before(end)
}

// end ends a sign-in.
func (s *signIns) end(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, sha256.Sum256([]byte(value)))
}

// signedIn reports whether a request has the cookie of a sign-in that lasts.
func (h *handler) signedIn(r *http.Request) bool {
	cookie, err := r.Cookie(signInCookie)
	return err == nil && h.signIns.has(cookie.Value, time.Now())
}

// signIn takes the token, and gives a cookie for it.
func (h *handler) signIn(r *http.Request) (httpserve.Answer, error) {
	var b struct {
		Token string `json:"token"`
	}
	if err := body(r, &b); err != nil {
		return httpserve.Answer{}, err
	}
	token := strings.TrimSpace(b.Token)
	switch {
	case h.access.Token == "":
		return httpserve.Answer{}, httpserve.Refuse(http.StatusConflict, "nobody can sign in here: set TOCSIN_TOKEN and start the dashboard again")
	case token == "":
		return httpserve.Answer{}, httpserve.Refuse(http.StatusUnauthorized, `a token is required: send {"token":"..."} with the value of TOCSIN_TOKEN`)
	case !httpguard.SameSecret(token, h.access.Token):
		return httpserve.Answer{}, httpserve.Refuse(http.StatusUnauthorized, httpguard.ErrWrongToken.Error())
	}
	return httpserve.OK().With("Set-Cookie", signInCookieOf(r, h.signIns.begin(time.Now()), signInLife)), nil
}

// signOut ends the sign-in of a request, if it has one.
func (h *handler) signOut(r *http.Request) (httpserve.Answer, error) {
	if cookie, err := r.Cookie(signInCookie); err == nil {
		h.signIns.end(cookie.Value)
	}
	return httpserve.OK().With("Set-Cookie", signInCookieOf(r, "", -time.Second)), nil
}

// signInCookieOf makes the cookie so that no script reads it, and no other site has it
// sent. Where the page came by TLS, as its Origin shows behind a proxy too, the browser
// sends it by TLS alone.
func signInCookieOf(r *http.Request, value string, life time.Duration) string {
	cookie := http.Cookie{ //nolint:gosec // Secure where the page came by TLS: without it no cookie would be kept
		Name: signInCookie, Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
	return cookie.String()
}
