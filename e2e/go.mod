module github.com/tocsin-bus/tocsin/e2e

go 1.26.0

require github.com/tocsin-bus/tocsin/shared v0.0.0

require (
	github.com/modelcontextprotocol/go-sdk v1.8.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
)

replace github.com/tocsin-bus/tocsin/shared => ../shared
