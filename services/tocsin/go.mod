module github.com/tocsin-bus/tocsin/services/tocsin

go 1.26.0

require (
	github.com/nats-io/nats.go v1.55.0
	github.com/prometheus/client_golang v1.25.0
	github.com/tocsin-bus/tocsin/services/detector v0.0.0
	github.com/tocsin-bus/tocsin/services/gateway v0.0.0
	github.com/tocsin-bus/tocsin/services/ingest v0.0.0
	github.com/tocsin-bus/tocsin/shared v0.0.0
	golang.org/x/sync v0.24.0
)

replace (
	github.com/tocsin-bus/tocsin/services/detector => ../detector
	github.com/tocsin-bus/tocsin/services/gateway => ../gateway
	github.com/tocsin-bus/tocsin/services/ingest => ../ingest
	github.com/tocsin-bus/tocsin/shared => ../../shared
)
