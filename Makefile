# HeteroFlow node agent. `make` lists the targets.

SHELL       := /bin/sh
.DEFAULT_GOAL := help

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT      ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)$(shell git diff --quiet HEAD 2>/dev/null || echo -dirty)
BUILD_TIME  ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo unknown)
AGENT_X     := -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.buildTime=$(BUILD_TIME)
SERVER_PKG  := github.com/heteroflow/node-agent/devserver/cli
SERVER_X    := -X $(SERVER_PKG).Version=$(VERSION) -X $(SERVER_PKG).Commit=$(COMMIT) -X $(SERVER_PKG).BuildTime=$(BUILD_TIME)

GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
TOOLKIT     := github.com/NVIDIA/nvidia-container-toolkit
TOOLS       := $(CURDIR)/.tools
SCRIPTS     := .ci/run $(wildcard test/*/*.sh)

RUNTIME     ?= docker
TEST_FLAGS  ?=
BENCH_TIME  ?= 1s
BENCH_COUNT ?= 1

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: go
go:
	@command -v go >/dev/null || { \
	  echo "Go is missing: install 1.26 from https://go.dev/dl/ (any Go from 1.21 on fetches it by itself)" >&2; exit 1; }

.PHONY: helper
helper: go ## build the optional NVIDIA helper into bin/ (cgo: needs gcc)
	CGO_ENABLED=1 CGO_CFLAGS='-O2 -Wno-deprecated-declarations' go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' \
	  -o bin/heteroflow-nvml ./cmd/heteroflow-nvml

.PHONY: deps
deps: go ## install what building, testing and linting need (apt, as root)
	@for tool in git file shellcheck crun gcc; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	command -v ip >/dev/null || missing="$$missing iproute2"; \
	case $$missing in *gcc*) missing="$$missing libc6-dev";; esac; \
	if [ -n "$$missing" ]; then \
	  echo "installing$$missing with apt-get"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	fi

.PHONY: build
build: go ## build the static agent, its log shim and the reference control plane into bin/
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w $(AGENT_X)' -o bin/heteroflow-agent ./cmd/heteroflow-agent
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/heteroflow-log-shim ./cmd/heteroflow-log-shim
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w $(SERVER_X)' -o bin/heteroflow-devserver ./cmd/heteroflow-devserver

CONTAINERD2     := 2.4.2
CONTAINERD2_DIR := /var/cache/heteroflow-test/containerd-$(CONTAINERD2)

.PHONY: containerd2
containerd2: go ## build containerd 2 for its part of the tests, once (6 minutes)
	@[ -x $(CONTAINERD2_DIR)/containerd-shim-runc-v2 ] || { \
	  echo "building containerd $(CONTAINERD2) into $(CONTAINERD2_DIR)"; \
	  CGO_ENABLED=0 GOBIN=$(CONTAINERD2_DIR) go install \
	    github.com/containerd/containerd/v2/cmd/containerd@v$(CONTAINERD2) \
	    github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2@v$(CONTAINERD2); }

.PHONY: daemons docker containerd
daemons: docker containerd

docker containerd:
	@test/daemon/$@.sh start

.PHONY: demo
demo: build $(RUNTIME) ## play three tasks end to end on this machine (as root; RUNTIME=docker or containerd)
	go build -o bin/demo ./test/demo
	bin/demo -runtime $(RUNTIME)

TEST := PATH=$(TOOLS):$$PATH HFTEST_REQUIRE_DOCKER=1 HFTEST_REQUIRE_CONTAINERD=1 HFTEST_REQUIRE_PROGRAMS=1 \
  CGO_CFLAGS='-O2 -Wno-deprecated-declarations' go test -race -timeout 45m

# The suite of faults runs alone: daemons that die and come back disturb the machine's networks.
.PHONY: test
test: deps nvidia daemons ## run all tests, with the race detector, against the real daemons (as root)
	go -C test/cdischema test $(TEST_FLAGS) ./...
	@failed=0; \
	$(TEST) $(TEST_FLAGS) $$(go list ./... | grep -v '/test/faults$$') || failed=1; \
	$(TEST) $(TEST_FLAGS) ./test/faults || failed=1; \
	exit $$failed

# SOAK is a Go duration; SEED, where it is set, draws the schedules of an earlier soak again.
SOAK        ?= 1h
SEED        ?=

.PHONY: soak
soak: go ## draw random schedules of faults on daemons of its own, for SOAK=1h (as root)
	HFTEST_REQUIRE_DOCKER=1 HFTEST_REQUIRE_CONTAINERD=1 HFTEST_SOAK=$(SOAK) HFTEST_SEED=$(SEED) \
	  go test -race -timeout 0 -count 1 -v -run '^TestSoak$$|^TestNoSchedule' ./test/faults

# VM_GROUPS is a pattern of the suites' groups; without KVM the default ones take ten minutes and more.
VM_GROUPS   ?= memory|limits|exit|process

.PHONY: vm
vm: go ## run both runtimes' suites in a virtual machine with systemd and cgroup v2 (as root)
	test/vm/vm.sh '$(VM_GROUPS)'

.PHONY: lint
lint: go tools ## vet, golangci-lint, shellcheck, known vulnerabilities
	CGO_CFLAGS='-O2 -Wno-deprecated-declarations' go vet ./...
	CGO_CFLAGS='-O2 -Wno-deprecated-declarations' $(TOOLS)/golangci-lint run
	shellcheck -x -P SCRIPTDIR $(SCRIPTS)
	@for script in $(SCRIPTS); do case $$(head -n 1 $$script) in *bash*) bash -n $$script;; *) sh -n $$script;; esac || exit 1; done
	@$(TOOLS)/govulncheck ./... || { \
	  code=$$?; [ $$code -eq 3 ] && exit 3; \
	  echo "govulncheck could not run (exit $$code): its database cannot be reached from here" >&2; }

# NVIDIA's own programs are of the release whose generator of specs we build.
.PHONY: tools nvidia
tools: INSTALL = $(GOLANGCI) $(GOVULNCHECK)
nvidia: RELEASE = $(shell go list -m -f '{{.Version}}' $(TOOLKIT))
nvidia: INSTALL = $(TOOLKIT)/cmd/nvidia-cdi-hook@$(RELEASE) $(TOOLKIT)/cmd/nvidia-container-runtime@$(RELEASE)
tools nvidia: go
	@mkdir -p $(TOOLS)
	@for tool in $(INSTALL); do \
	  name=$${tool%@*}; name=$(TOOLS)/$${name##*/}; \
	  go version -m $$name 2>/dev/null | grep -q "mod.*$${tool##*@}" || { echo "building $$tool"; GOBIN=$(TOOLS) go install $$tool || exit 1; }; \
	done

.PHONY: bench
bench: go daemons ## run the benchmarks (BENCH_TIME, BENCH_COUNT)
	HFTEST_REQUIRE_DOCKER=1 HFTEST_REQUIRE_CONTAINERD=1 go test -run '^$$' -bench . -benchtime $(BENCH_TIME) -count $(BENCH_COUNT) ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .tools
