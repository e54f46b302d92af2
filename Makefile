# `make guests` builds the built-in reconcilers into target/guests, from where the host embeds them,
# and two versions of the example policy, which the demo swaps.

WASM_TARGET := wasm32-unknown-unknown
HELLO := --manifest-path examples/policies/hello/Cargo.toml --out target/guests
XTASK := cargo run --quiet --package xtask --

.PHONY: guests
guests:
	@rustup target list --installed | grep -qx $(WASM_TARGET) || rustup target add $(WASM_TARGET)
	$(XTASK) guests
	$(XTASK) guests $(HELLO)
	HELLO_VERSION=2.0.0 $(XTASK) guests $(HELLO) --name hello-v2
