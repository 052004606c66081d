//go:build image

package service

// An image FROM scratch has no certificates of authorities: NATS over TLS and
// webhooks would trust nobody. These are used where the system has none, so who
// mounts a file at /etc/ssl/certs/ca-certificates.crt has that in their place.
// Parsing them takes 3 ms at every start, which a hook of an agent would feel:
// so they are in the binaries for images alone.
import _ "golang.org/x/crypto/x509roots/fallback"
