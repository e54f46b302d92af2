# `make guests` builds the built-in reconcilers into target/guests, from where the host embeds them.

WASM_TARGET := wasm32-unknown-unknown

.PHONY: guests
guests:
	@rustup target list --installed | grep -qx $(WASM_TARGET) || rustup target add $(WASM_TARGET)
	cargo run --quiet --package xtask -- guests
