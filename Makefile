# The front door: `make help` lists every target.

SHELL := /bin/sh
GO ?= go
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
# v3.22.0: later ones need a module version that the proxy does not have.
VALE := github.com/vale-cli/vale/v3/cmd/vale@v3.22.0
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.0
FUZZTIME ?= 10s

# Every module of the workspace that holds Go code.
MODULES := $(shell $(GO) list -f '{{.Module.Dir}}' work | sort -u)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
SERVICE := github.com/tocsin-bus/tocsin/shared/service
LDFLAGS := -s -w -X $(SERVICE).version=$(VERSION) -X $(SERVICE).commit=$(COMMIT)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: script
script: ## build the browser script tocsin.js, if Node is installed
	@services/ingest/script/build.sh

.PHONY: page
page: ## build the dashboard's page, if Node is installed
	@services/dashboard/web/build.sh

.PHONY: build
build: script page ## build bin/tocsin and bin/tocsin-services, which it runs for most commands
	@# Without cgo, as the archives and images are: they then share the build cache.
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tocsin-services ./services/tocsin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tocsin ./services/tocsin/launcher

.PHONY: run
run: build ## build and run the bus, ingest, detector and dashboard until Ctrl-C
	bin/tocsin up

.PHONY: demo
demo: build ## play a story of 10 s: what an agent sees, on free ports and a scratch directory
	$(GO) run ./e2e/cmd/demo -tocsin bin/tocsin

.PHONY: images
images: script page ## build the container images (see deploy/images)
	@deploy/images/build.sh

.PHONY: kube-apiserver
kube-apiserver: ## build the API server of the Kubernetes tests (minutes, once)
	@e2e/kube-apiserver/build.sh

# The packages that test the real binary. They build it with the race detector, and run
# without it themselves: none of the product's code runs in their processes.
E2E = $$($(GO) list ./e2e/... | grep -vE '/e2e/(cmd|eval|harness)(/|$$)')

.PHONY: test
test: script page test-unit test-e2e ## run all tests

# make lint runs go vet, so the tests need not.
.PHONY: test-unit
test-unit: ## run the tests of single packages, with the race detector
	$(GO) test -race -vet=off -timeout 25m $$($(GO) list work | grep -vxF "$(E2E)")

.PHONY: test-e2e
test-e2e: ## run the tests of the real binary, which is built with the race detector
	$(GO) test -count=1 -vet=off -timeout 15m $(E2E) # a cached result would not notice another binary
	cd e2e/manifests && GOWORK=off $(GO) test -count=1 -timeout 15m ./...

.PHONY: bench
bench: build ## measure latencies and throughput: p50 and p99 beside the figures to meet
	$(GO) run ./e2e/cmd/bench -tocsin bin/tocsin

.PHONY: bench-kubernetes
bench-kubernetes: build ## measure events, faults and memory on a real Kubernetes API server (needs make kube-apiserver; BENCH=FLAGS)
	$(GO) run ./e2e/cmd/kubebench -tocsin bin/tocsin $(BENCH)

.PHONY: eval
eval: ## measure what the detection rules find, miss and invent, into e2e/eval/RESULTS.md (corpora: NAB=DIR TCPD=DIR)
	$(GO) run ./e2e/cmd/eval -seeds frozen -out e2e/eval $(if $(NAB),-nab $(NAB)) $(if $(TCPD),-tcpd $(TCPD))

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list work); do \
		dir=$$($(GO) list -f '{{.Dir}}' $$pkg); \
		for target in $$(grep -ho 'func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go 2>/dev/null | sed 's/func //'); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: lint
lint: prose ## run gofmt, go vet, tsc, golangci-lint, the prose linter and, if its database can be reached, govulncheck
	@out=$$(gofmt -l $(MODULES) e2e/kube-apiserver); test -z "$$out" || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }
	$(GO) vet work
	@services/ingest/script/check.sh
	@services/dashboard/web/check.sh
	@set -e; for dir in $(MODULES); do \
		echo "golangci-lint $$dir"; \
		(cd $$dir && $(GO) run $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...); \
	done
	cd e2e/manifests && GOWORK=off $(GO) run $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...
	@# With the flags of its build, to use the same cache.
	@if e2e/kube-apiserver/build.sh --path >/dev/null; then cd e2e/kube-apiserver && GOWORK=off $(GO) vet -trimpath .; fi
	@if curl -fsS -m 10 -o /dev/null https://vuln.go.dev/index/db.json 2>/dev/null; then \
		for dir in $(MODULES); do (cd $$dir && $(GO) run $(GOVULNCHECK) ./...) || exit 1; done; \
	else echo "govulncheck: skipped, its database can't be reached from here"; fi

.PHONY: prose
prose: ## check the words of comments, strings and pages (Vale with the rules in .vale/Tocsin)
	@git ls-files '*.go' '*.md' '*.ts' '*.tsx' '*.sh' '*.yaml' ':!*/testdata/*' | xargs $(GO) run $(VALE) --output line

.PHONY: release-check
release-check: ## check .goreleaser.yaml (builds goreleaser: minutes, once)
	GOWORK=off $(GO) run $(GORELEASER) check

.PHONY: clean
clean: ## remove what build made
	rm -rf bin services/ingest/script/dist/tocsin.js $(addprefix services/dashboard/web/dist/,index.html licenses.txt assets)
