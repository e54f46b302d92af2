#!/usr/bin/env bash
# Puts the pinned Envoy Gateway, built from its Go module, into a cache folder, once, and prints the
# path of the binary. Usage: envoy-gateway.sh CACHE_FOLDER
set -euo pipefail
version=1.9.1
binary="$1/envoy-gateway-$version/envoy-gateway"
if [ ! -x "$binary" ]; then
    echo "building Envoy Gateway $version (a Go module) into $binary; this takes some six minutes" >&2
    mkdir -p "${binary%/*}"
    CGO_ENABLED=0 GOBIN="${binary%/*}" go install -p 2 -trimpath -ldflags '-s -w' \
        "github.com/envoyproxy/gateway/cmd/envoy-gateway@v$version" >&2
fi
echo "$binary"
