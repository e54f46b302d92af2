#!/usr/bin/env bash
# Builds the Go programs of tests/xds (xDS clients and the public test harness) into a cache folder,
# once for each state of their sources, and prints that folder. Usage: xds-clients.sh CACHE_FOLDER
set -euo pipefail
cd "$(dirname "$0")/../xds"
command -v go >/dev/null || { echo 'tests/xds needs Go 1.26 or newer in PATH' >&2; exit 1; }
# The toolchain that is here, and exactly what go.sum names.
export GOTOOLCHAIN=local GOFLAGS=-mod=readonly CGO_ENABLED=0
key=$( (go version; find . -type f \( -name '*.go' -o -name 'go.*' \) | LC_ALL=C sort | xargs sha256sum) | sha256sum | cut -c1-16)
built="$1/xds-clients-$key"
if [ ! -d "$built" ]; then
    echo "== building the xDS clients of tests/xds into $built; the first time takes some two minutes" >&2
    mkdir -p "$1"
    work=$(mktemp -d "$1/xds-clients-new.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    build() { go build -C "$1" -trimpath -buildvcs=false -ldflags '-s -w' -o "$work/" "${@:2}" >&2; }
    build . ./rawads ./grpcxds
    build harness .
    # Another one may have been quicker.
    mv -T "$work" "$built" 2>/dev/null || [ -d "$built" ]
fi
echo "$built"
