# Concord. `make help` lists the targets.
SHELL := /bin/bash
GO ?= go
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -X main.version=$(VERSION)
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: faults help build run cluster cluster-status cluster-kill cluster-start cluster-pause cluster-continue test race proto proto-check lint vet bench bench-peers-build bench-peers bench-compare bench-growth fuzz etcd-compat etcd-clients kube ci clean

help: ## this list
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build bin/concord
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

run: build ## build and start one node (data in ./data, clients on 127.0.0.1:7411)
	$(BIN)/concord serve

cluster: build ## build and start three nodes on this machine (clients on 127.0.0.1:7411, :7421, :7431); ^C stops them
	$(BIN)/concord cluster dev

cluster-status: ## the members of the cluster that `make cluster` runs
	$(BIN)/concord cluster status --endpoint 127.0.0.1:7411,127.0.0.1:7421,127.0.0.1:7431

cluster-kill cluster-start cluster-pause cluster-continue: ## do that to node N of it, as in `make cluster-kill N=2`
	$(BIN)/concord cluster dev $(@:cluster-%=%) $(N)

# A package may take more than the ten minutes that go test allows it, on a slow machine.
test: ## every test
	$(GO) test -timeout 30m ./...

# Every fault of the field on clusters of processes, and how often each was there. Some
# need root. FAULTS_ROUNDS are rounds on three nodes; five nodes have each fault once.
FAULTS_ROUNDS ?= 54
faults: ## clusters of three and five nodes under every fault, 100 rounds, with counts (half an hour)
	@mkdir -p build && rm -f build/faults.txt
	set -o pipefail; { \
	$(GO) test ./cluster/clustertest -count=1 -v -timeout 60m -run '^TestFaults$$' -cluster.rounds=$(FAULTS_ROUNDS) && \
	$(GO) test ./cluster/clustertest -count=1 -v -timeout 60m -run '^TestFaults$$' -cluster.rounds=18 -cluster.nodes=5 && \
	$(GO) test ./cluster/clustertest -count=1 -v -timeout 60m -run '^(TestCablesArePulled|TestStalledDisk)$$' && \
	$(GO) test ./cluster/clustertest -count=3 -v -timeout 60m -run '^(TestFullDisk|TestDamagedLog)$$'; } | tee build/faults.txt
	@sed -nE 's/.*fault: ([a-z-]+).*/\1/p' build/faults.txt | sort | uniq -c

# The long forms repeat what the short ones do; the detector makes all of it ten times slower.
race: ## every test in its short form under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short -timeout 60m ./...

proto: ## generate Go from the .proto files
	$(GO) run -C messages/protogen .

proto-check: proto ## fail when generated code is not what is committed
	git diff --exit-code -- messages actors/etcd

vet:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	$(GO) vet ./...

lint: vet ## gofmt, vet, golangci-lint
	$(GO) run $(GOLANGCI) run ./...

bench: ## short benchmarks: raw proposals beside puts of a remote client
	$(GO) run ./cmd/concord bench --short

# Servers that Concord is measured beside; ZooKeeper comes with the system (apt-get install zookeeper).
PEERS := build/peers
PEERS_FLAGS ?=
bench-peers-build: build ## build etcd, NATS and the load program that drives them and Concord
	mkdir -p $(PEERS)/bin
	cd bench/peers/servers && $(GO) build -trimpath -o $(CURDIR)/$(PEERS)/bin/etcd go.etcd.io/etcd/server/v3
	cd bench/peers/servers && $(GO) build -trimpath -o $(CURDIR)/$(PEERS)/bin/nats-server github.com/nats-io/nats-server/v2
	cd bench/peers && $(GO) build -trimpath -o $(CURDIR)/$(PEERS)/bin/peers . && $(GO) build -trimpath -o $(CURDIR)/$(PEERS)/bin/plot ./plot

bench-peers: bench-peers-build ## measure Concord, etcd, NATS and ZooKeeper in turn, with ratios; PEERS_FLAGS are further flags
	$(PEERS)/bin/peers -concord $(BIN)/concord -bin $(PEERS)/bin -dir $(PEERS)/data -json $(PEERS)/peers.json $(PEERS_FLAGS)
	$(PEERS)/bin/plot -o $(PEERS)/plots $(PEERS)/peers.json

AXES ?= keys values clients nodes watchers leases
bench-growth: build ## measure how cost grows along AXES, one at a time, and draw it (15 minutes)
	mkdir -p $(PEERS)/bin
	cd bench/peers && $(GO) build -trimpath -o $(CURDIR)/$(PEERS)/bin/plot ./plot
	AXES="$(AXES)" bench/growth.sh $(BIN)/concord $(PEERS)/bin/plot build/growth

BASE ?= HEAD~1
COMPARE ?= --workloads put,get --clients 1,64,1000 --duration 3s
bench-compare: build ## measure this tree and the revision BASE in turn, with ratios; COMPARE are flags of concord bench
	rm -rf build/base && mkdir -p build/base
	git archive $(BASE) | tar -x -C build/base
	cd build/base && $(GO) build -trimpath -o $(CURDIR)/build/concord-base ./cmd/concord
	$(BIN)/concord bench --base build/concord-base $(COMPARE)

# A failure prints the seed, the commit, the shrunk script and the line that replays it.
SEEDS ?= 500
sim: ## simulate SEEDS fresh seeds with faults, or replay SEED=x
ifdef SEED
	$(GO) test ./actors/actortest -run '^TestSim$$' -count=1 -v -sim.seed=$(SEED)
else
	$(GO) test ./actors/actortest -run '^TestSim$$' -count=1 -v -timeout 24h -sim.seeds=$(SEEDS)
endif

# Each target is a package and a fuzz function; FUZZTIME is for each of them.
FUZZTIME ?= 30s
SEQUENCES ?= 100000
fuzz: ## run every fuzz target for FUZZTIME and the long model tests
	@set -e; for f in $$(git grep -lE '^func Fuzz' -- '*_test.go'); do \
		for t in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$f); do \
			echo "fuzz $$t in $$(dirname $$f)"; \
			$(GO) test ./$$(dirname $$f) -run '^$$' -fuzz "^$$t$$" -fuzztime $(FUZZTIME); \
		done; done
	CONCORD_TWIN_SEQUENCES=$(SEQUENCES) $(GO) test ./state -run '^TestTwin$$' -count=1 -v -timeout 24h

# A module of its own: it needs etcd's server and etcdctl. OPERATIONS is how many random requests etcd and we are both given.
OPERATIONS ?= 4000
etcd-compat: ## test the etcd endpoint with etcd's client, etcdctl, and beside etcd's server
	cd actors/etcd/compat && CONCORD_ETCD_OPERATIONS=$(OPERATIONS) $(GO) test -count=1 -timeout 60m ./...

# Needs npm, and Debian's python3-etcd3 (apt-get install python3-etcd3); what is not there is left out, and said.
etcd-clients: build ## run clients of etcd in other languages against a node's etcd endpoint
	actors/etcd/compat/clients.sh $(BIN)/concord

# Builds an apiserver of Kubernetes: minutes, and some gigabytes of build cache.
kube: build ## a real kube-apiserver on a node's etcd endpoint: create, list, watch, delete 1,000 objects
	cd actors/etcd/compat/kube && $(GO) build -trimpath -o $(CURDIR)/build/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	cd actors/etcd/compat/kube && CONCORD_BIN=$(CURDIR)/$(BIN)/concord KUBE_APISERVER_BIN=$(CURDIR)/build/kube-apiserver $(GO) test -count=1 -v ./...

ci: vet proto-check build test ## what continuous integration runs

clean: ## remove what was built
	rm -rf $(BIN) build
