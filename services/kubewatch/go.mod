module github.com/tocsin-bus/tocsin/services/kubewatch

go 1.26.0

require (
	github.com/tocsin-bus/tocsin/shared v0.0.0
)

replace github.com/tocsin-bus/tocsin/shared => ../../shared
