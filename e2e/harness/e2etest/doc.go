// Package e2etest has what the end-to-end tests share: a running bus with an
// agent connected, requests to it, and the tools and pages that tests need.
// Its functions end the test if they fail.
package e2etest
