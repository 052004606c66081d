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
	// signInTTL is how long a sign-in lasts.
	signInTTL = 12 * time.Hour
	// maxSignIns is the maximum number of valid sign-ins. One more ends the oldest.
	maxSignIns = 256
)

// signIns are the sign-ins of browsers with the token. A cookie is a random text, so a leaked
// cookie does not reveal the token, and is useless after signInTTL. Only hashes of cookies
// are stored, in memory.
type signIns struct {
	mu sync.Mutex
	// expiries has the end of each sign-in by the hash of its cookie's value.
	expiries map[[sha256.Size]byte]time.Time
}

func newSignIns() *signIns { return &signIns{expiries: map[[sha256.Size]byte]time.Time{}} }

// add adds a sign-in and returns the value of its cookie.
func (s *signIns) add(now time.Time) string {
	value := rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, end := range s.expiries {
		if !now.Before(end) {
			delete(s.expiries, hash)
		}
	}
	if len(s.expiries) >= maxSignIns {
		delete(s.expiries, s.oldest())
	}
	s.expiries[sha256.Sum256([]byte(value))] = now.Add(signInTTL)
	return value
}

func (s *signIns) oldest() (hash [sha256.Size]byte) {
	var first time.Time
	for h, end := range s.expiries {
		if first.IsZero() || end.Before(first) {
			hash, first = h, end
		}
	}
	return hash
}

// isValid reports whether a cookie's value is that of a valid sign-in. It looks up the hash,
// so the time that it takes reveals nothing about the stored values.
func (s *signIns) isValid(value string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.expiries[sha256.Sum256([]byte(value))]
	return ok && now.Before(end)
}

// remove ends a sign-in.
func (s *signIns) remove(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expiries, sha256.Sum256([]byte(value)))
}

// signedIn reports whether a request has the cookie of a valid sign-in.
func (h *handler) signedIn(r *http.Request) bool {
	cookie, err := r.Cookie(signInCookie)
	return err == nil && h.signIns.isValid(cookie.Value, time.Now())
}

// signIn checks the token of a request, and answers with a cookie.
func (h *handler) signIn(r *http.Request) (httpserve.Answer, error) {
	var b struct {
		Token string `json:"token"`
	}
	if err := decodeBody(r, &b); err != nil {
		return httpserve.Answer{}, err
	}
	token := strings.TrimSpace(b.Token)
	switch {
	case h.access.Token == "":
		return httpserve.Answer{}, httpserve.Refuse(http.StatusConflict, "sign-in is off: set TOCSIN_TOKEN and restart the dashboard")
	case token == "":
		return httpserve.Answer{}, httpserve.Refuse(http.StatusUnauthorized, `a token is required: send {"token":"..."} with the value of TOCSIN_TOKEN`)
	case !httpguard.SameSecret(token, h.access.Token):
		return httpserve.Answer{}, httpserve.Refuse(http.StatusUnauthorized, httpguard.ErrWrongToken.Error())
	}
	return httpserve.OK().With("Set-Cookie", newSignInCookie(r, h.signIns.add(time.Now()), signInTTL)), nil
}

// signOut ends the sign-in of a request, if it has one.
func (h *handler) signOut(r *http.Request) (httpserve.Answer, error) {
	if cookie, err := r.Cookie(signInCookie); err == nil {
		h.signIns.remove(cookie.Value)
	}
	return httpserve.OK().With("Set-Cookie", newSignInCookie(r, "", -time.Second)), nil
}

// newSignInCookie returns the cookie, which scripts can't read and other sites can't have
// sent. If the page was loaded by TLS, which its Origin shows even behind a proxy, the
// browser sends it by TLS only.
func newSignInCookie(r *http.Request, value string, ttl time.Duration) string {
	cookie := http.Cookie{ //nolint:gosec // Secure only if the page was loaded by TLS: otherwise browsers would drop the cookie
		Name: signInCookie, Value: value, Path: "/", MaxAge: int(ttl.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
	}
	return cookie.String()
}
