package service

import "github.com/tocsin-bus/tocsin/shared/httpguard"

// ProxyFlags name the proxies whose users may read without the token.
type ProxyFlags struct {
	TrustedProxies     []httpguard.Network `name:"trusted-proxy" help:"Address or network of a proxy in front that signs people in: its users need no token; may be repeated. Whoever can connect from there is believed." env:"TOCSIN_TRUSTED_PROXIES" placeholder:"ADDR"`
	TrustedProxyHeader string              `help:"Header in which it names the user; it must not pass on what others send in it. Default: ${default}." default:"X-Forwarded-User" env:"TOCSIN_TRUSTED_PROXY_HEADER" placeholder:"NAME"`
}

// Proxy is what the flags say.
func (f ProxyFlags) Proxy() httpguard.Proxy {
	return httpguard.Proxy{Networks: f.TrustedProxies, Header: f.TrustedProxyHeader}
}
