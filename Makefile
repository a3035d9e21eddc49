# What CI runs, one by one. Each target needs Go; conformance and typescript also need npm.
.PHONY: test lint race fuzz bench bench-smoke conformance agentdojo demo isolation typescript guards deploy image integration integration-claude integration-newest history chaos chaos-mutants

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME ?= 5s
# Packages that share state between goroutines.
CONCURRENT = ./alert ./connect ./credential ./dispatch ./ingress ./label ./notify ./store/... ./identity ./issuer ./policy/... ./tool/... ./edge/...

test:
	go test ./...

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run gofmt -w on these'; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	go test -run 'TestHouse|TestOnlyToolsRedeem' .

# Long tests with one caller at a time: nothing for the race detector to see.
ALONE := ^(TestRule_D1_EveryDifferenceIsANewQuestion|TestRule_F5_PayloadsAreLookedThroughInEveryReading|TestPromisesOnPostgreSQL|TestPromise_P1_NoEffectWithoutARecord|TestPromise_P[236]_.*|TestRule_D5_.*)$$

# SQLite itself, which is C that was translated, is compiled as it is shipped: instrumented
# it is several times slower, and its memory is shared with nothing of ours.
race:
	go test -race -gcflags='modernc.org/...=-race=false' -timeout 20m -skip '$(ALONE)' $(CONCURRENT)

# Every fuzz target for a moment: that it still runs and finds nothing at once. A package
# is linked once for all of its targets.
fuzz:
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	for p in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  go test -c -fuzz=. -ldflags='-s -w' -o "$$dir/fuzz.test" $$p; \
	  for f in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$p/*_test.go | cut -c6-); do \
	    echo "fuzz $$p $$f"; \
	    (cd $$p && "$$dir/fuzz.test" -test.run '^$$' -test.fuzz "^$$f$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 10x -test.fuzzcachedir "$$(go env GOCACHE)/fuzz/$$(go list .)"); \
	  done; \
	done

# How the guards do on hostile and honest values, ours and public ones.
guards:
	@go test -count=1 -v -run 'OnCorpora|OnWebPlatformTests|OnIDNATests' ./guard | grep -E 'guards:|FAIL|^ok'

bench:
	go run ./bench

# Recorded tasks and prompt injections through the gateway; the suites stand beside the repository.
SUITES ?= ../shared/data/agentdojo
agentdojo:
	go run ./bench/agentdojo -suite $(SUITES)/workspace.json -registry bench/agentdojo/workspace.yaml
	go run ./bench/agentdojo -suite $(SUITES)/banking.json -registry bench/agentdojo/banking.yaml

bench-smoke:
	go run ./bench -short

conformance:
	bash conformance/run.sh

# The package for tool servers in TypeScript: npm ci, tsc and its tests, on the vectors of ./verify.
typescript:
	bash sdk/typescript/run.sh test

demo:
	go run ./cmd/placet demo

# What a history could be made to say, on every way to a tool. Prints history: P/N,
# those cells that hold of all.
history:
	cd histories && go test -count=1 -run TestHistoryMatrix

# Who may do what, every operation, method and command by every kind of caller.
# Prints isolation: P/N, those cells that hold of all.
isolation:
	cd isolation && go test -count=1

# Processes that die anywhere, judged by the tool server's own account; KILLS=1000 is the
# long form, and SEED repeats what was chosen by chance.
KILLS ?= 60
chaos:
	go run ./chaos -kills $(KILLS) $(if $(SEED),-seed $(SEED))

# The test of that test: servers that break a promise must be found out.
chaos-mutants:
	go run ./chaos -mutants -kills 5 $(if $(SEED),-seed $(SEED))

# Clients from npm through a real server: those of integration/clients, and the largest one apart.
integration:
	bash integration/run.sh fetch clients
	go test -count=1 -v -run TestClients ./integration

integration-claude:
	bash integration/run.sh fetch claude
	go test -count=1 -v -run TestClaude ./integration

# The same with the newest versions, whose lock files it writes.
integration-newest:
	bash integration/run.sh newest clients
	bash integration/run.sh newest claude
	CLIENTS=newest go test -count=1 -v ./integration

# How it is deployed: the unit, the chart (by Helm's own code, in a module of its own).
deploy:
	go test -count=1 -v ./deploy
	cd deploy/helm/lint && go test -count=1 ./...

# An image from scratch, with whatever builds images here: nothing is pulled.
BUILDER ?= $(firstword $(notdir $(shell command -v buildah podman docker 2>/dev/null)))
image:
	@test -n "$(BUILDER)" || { echo 'no builder here: install buildah, podman or docker'; exit 1; }
	CGO_ENABLED=0 go build -trimpath -o bin/image/placet ./cmd/placet
	$(BUILDER) build -t placet -f deploy/Dockerfile bin/image
