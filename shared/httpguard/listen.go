package httpguard

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lookupTimeout bounds the lookup of a name to listen on.
const lookupTimeout = 2 * time.Second

// CheckListen returns why nothing may listen on addr, or nil. The address must be
// host:port with a port from 0 to 65535. One that other machines can reach needs a token;
// white space alone is no token. Errors begin with setting, the name of the setting that
// people know.
//
// Names below localhost depend on the resolver, so they are looked up. A name that cannot
// be looked up is accepted here: listening on it fails.
func CheckListen(ctx context.Context, setting, addr, token string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s %q must be host:port, such as 127.0.0.1:0", setting, displayed(addr))
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s %q must have a port between 0 and 65535", setting, displayed(addr))
	}
	if strings.TrimSpace(token) != "" || onlyLoopback(ctx, host) {
		return nil
	}
	return fmt.Errorf("%s %s can be reached from other machines: set TOCSIN_TOKEN, or listen on 127.0.0.1", setting, displayed(addr))
}

func onlyLoopback(ctx context.Context, host string) bool {
	if !Loopback(host) {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return true
	}
	return !slices.ContainsFunc(found, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() })
}

// DialAddress returns host:port by which this machine reaches a listener. It replaces a
// wildcard address, to which one cannot connect.
func DialAddress(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	// A wildcard listener accepts IPv4 too, also where it is shown as [::].
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.Port))
}

// WithListener returns p with the host of a listener's address added to AllowedHosts, unless
// it is a wildcard.
func (p Policy) WithListener(addr string) Policy {
	name, _, err := net.SplitHostPort(addr)
	if err != nil || name == "" {
		return p
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		if ip.IsUnspecified() {
			return p
		}
		if ip.Is6() {
			name = "[" + name + "]"
		}
	}
	p.AllowedHosts = append(slices.Clone(p.AllowedHosts), name)
	return p
}
