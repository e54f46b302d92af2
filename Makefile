# `make run` and `make test` are all the set-up there is. What is fetched or built once is kept in
# $(CACHE), outside the tree, so that a second checkout is quick.

CACHE := $(or $(CHITON_CACHE),$(HOME)/.cache/chiton)
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
WASM_TARGET := wasm32-unknown-unknown
CARGO_DENY := 0.20.2
CARGO_FUZZ := 0.13.2

# What `make soak` gives each fuzz target, in seconds.
FUZZ_SECONDS ?= 300
FUZZ_TARGETS := file module_manifest component objects discovery

HELLO := --manifest-path examples/policies/hello/Cargo.toml --out target/guests
XTASK := cargo run --quiet --package xtask --

# The real Envoy: $ENVOY if it is set, else the pinned one, fetched when it is first needed.
FETCH_ENVOY = ENVOY="$${ENVOY:-$$(tests/tools/envoy.sh "$(CACHE)")}"
# The xDS clients of tests/xds (Go), built when they are first needed.
BUILD_CLIENTS = CHITON_XDS_CLIENTS="$${CHITON_XDS_CLIENTS:-$$(tests/tools/xds-clients.sh "$(CACHE)")}"
TEST_ENV = $(FETCH_ENVOY) $(BUILD_CLIENTS) CHITON_BIN_DIR="$(TARGET)/debug"

.PHONY: help
help:
	@echo 'make run        serve examples/quickstart on 127.0.0.1 until Ctrl-C'
	@echo 'make demo       the same story by itself, under load; exit code 0 if nothing failed'
	@echo 'make test       everything that is tested'
	@echo 'make soak       what takes longer: more cases, more faults, fuzzing'
	@echo 'make bench      what things cost, into docs/performance.md; BENCH=--quick for a look'
	@echo 'make lint       formatting, clippy, licences and sources of dependencies'
	@echo 'make build      target/release/chiton'
	@echo 'make guests     the built-in reconcilers, into target/guests'
	@echo 'make golden     write tests/golden/*/out.yaml again, to be reviewed as a diff'
	@echo 'make crds       write deploy/crds again'

# Components of the built-in reconcilers, which the host embeds, and two versions of the example policy.
.PHONY: guests
guests:
	@rustup target list --installed | grep -qx $(WASM_TARGET) || rustup target add $(WASM_TARGET)
	@echo '== building the reconcilers (wasm)'
	$(XTASK) guests
	$(XTASK) guests $(HELLO)
	HELLO_VERSION=2.0.0 $(XTASK) guests $(HELLO) --name hello-v2

.PHONY: build
build: guests
	@echo '== building the release binaries; the first time takes some ten minutes'
	cargo build --release --package chiton --package chiton-example-backend --package chiton-tests --bins
	"$(TARGET)/release/chiton" precompile "$(TARGET)/release/chiton-compiled"

.PHONY: run
run: build
	@$(FETCH_ENVOY) CHITON_BIN_DIR="$(TARGET)/release" "$(TARGET)/release/quickstart"

.PHONY: demo
demo: build
	@$(FETCH_ENVOY) CHITON_BIN_DIR="$(TARGET)/release" "$(TARGET)/release/demo"

# What is measured, beside a bare loop. BENCH may be `--quick`, `--only cold,memory`, `--sizes 1000`.
BENCH ?=
RUN_BENCH = CHITON_BIN_DIR="$(TARGET)/release" "$(TARGET)/release/chiton-bench" --page docs/performance.md

.PHONY: bench-build
bench-build: guests
	@echo '== building in release mode; the first time takes some fifteen minutes'
	cargo build --release --package chiton --package chiton-example-backend --package chiton-bench
	"$(TARGET)/release/chiton" precompile "$(TARGET)/release/chiton-compiled"

.PHONY: bench
bench: bench-build
	@$(FETCH_ENVOY) $(RUN_BENCH) $(BENCH)

# Beside Envoy Gateway; needs Go, and takes some half an hour, nearly all of it Envoy Gateway's.
.PHONY: bench-peers
bench-peers: bench-build
	@$(FETCH_ENVOY) ENVOY_GATEWAY="$$(tests/tools/envoy-gateway.sh "$(CACHE)")" \
		tests/tools/own-network.sh env $(RUN_BENCH) --only peers $(BENCH)

.PHONY: test
test:
	@tests/tools/seed-target.sh load "$(CACHE)" "$(TARGET)"
	@$(MAKE) --no-print-directory guests
	@echo '== building tests; the first time takes some fifteen minutes'
	cargo build --workspace --all-targets
	@tests/tools/seed-target.sh save "$(CACHE)" "$(TARGET)"
	"$(TARGET)/debug/chiton" precompile "$(TARGET)/debug/chiton-compiled"
	@echo '== running tests'
	@$(TEST_ENV) cargo test --workspace
	@echo '== the same source gives the same components'
	$(XTASK) reproducible
	@echo '== all tests passed'

.PHONY: soak
soak: guests
	cargo build --workspace --all-targets
	@echo '== running the tests that `make test` leaves out'
	@$(TEST_ENV) cargo test --workspace -- --ignored
	@$(MAKE) --no-print-directory fuzz
	@echo '== soak: nothing found'

# Inputs that lead somewhere new are kept in $(CACHE)/fuzz. One that fails is written to
# tests/fuzz/artifacts: move it to tests/fuzz/seeds/TARGET once it is understood.
.PHONY: fuzz
fuzz: guests $(CACHE)/tools/bin/cargo-fuzz
	@rustup toolchain list | grep -q ^nightly || rustup toolchain install nightly --profile minimal
	@for target in $(FUZZ_TARGETS); do \
		echo "== fuzzing $$target for $(FUZZ_SECONDS) s"; \
		mkdir -p "$(CACHE)/fuzz/$$target"; \
		PATH="$(CACHE)/tools/bin:$$PATH" cargo +nightly fuzz run --fuzz-dir tests/fuzz --sanitizer none \
			--target-dir "$(CACHE)/fuzz/target" $$target \
			"$(CACHE)/fuzz/$$target" tests/fuzz/seeds/$$target tests/golden \
			-- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=4096 -timeout=60 -print_final_stats=1 || exit 1; \
	done

.PHONY: golden
golden: guests
	cargo build --workspace --all-targets
	UPDATE_GOLDEN=1 CHITON_BIN_DIR="$(TARGET)/debug" cargo test --package chiton-tests --test golden rendered

.PHONY: crds
crds:
	$(XTASK) crds

.PHONY: lint
lint: guests $(CACHE)/tools/bin/cargo-deny
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings
	@unformatted="$$(gofmt -l tests/xds/rawads tests/xds/grpcxds tests/xds/vhds-probe)"; \
		[ -z "$$unformatted" ] || { echo "not as gofmt writes it: $$unformatted"; exit 1; }
	"$(CACHE)/tools/bin/cargo-deny" --log-level error check bans licenses sources

$(CACHE)/tools/bin/cargo-deny:
	@echo '== installing cargo-deny $(CARGO_DENY) into $(CACHE)/tools'
	cargo install --quiet --debug --locked --root "$(CACHE)/tools" --version $(CARGO_DENY) cargo-deny

$(CACHE)/tools/bin/cargo-fuzz:
	@echo '== installing cargo-fuzz $(CARGO_FUZZ) into $(CACHE)/tools'
	cargo install --quiet --debug --locked --root "$(CACHE)/tools" --version $(CARGO_FUZZ) cargo-fuzz
