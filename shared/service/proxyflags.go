package service

import "github.com/tocsin-bus/tocsin/shared/httpguard"

// ProxyFlags name the proxies whose users need no token.
type ProxyFlags struct {
	TrustedProxies     []httpguard.Network `name:"trusted-proxy" help:"Address or network of a proxy in front that signs people in: its users need no token; may be repeated. Every connection from there is trusted." env:"TOCSIN_TRUSTED_PROXIES" placeholder:"ADDR"`
	TrustedProxyHeader string              `help:"Header in which the proxy names the user; the proxy must remove it from requests of others. Default: ${default}." default:"X-Forwarded-User" env:"TOCSIN_TRUSTED_PROXY_HEADER" placeholder:"NAME"`
}

// Proxy returns the proxy of the flags.
func (f ProxyFlags) Proxy() httpguard.Proxy {
	return httpguard.Proxy{Networks: f.TrustedProxies, Header: f.TrustedProxyHeader}
}
