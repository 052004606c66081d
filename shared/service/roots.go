//go:build image

package service

// An image FROM scratch has no CA certificates, so NATS over TLS and webhooks would trust no
// server. These are used if the system has none: a file that is mounted at
// /etc/ssl/certs/ca-certificates.crt replaces them. Parsing them takes 3 ms at every start,
// too long for an agent's hook, so only the binaries for images have them.
import _ "golang.org/x/crypto/x509roots/fallback"
