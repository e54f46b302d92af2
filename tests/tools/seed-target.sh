#!/usr/bin/env bash
# Keeps compiled dependencies outside the tree, so that the first build of a second checkout is quick.
# Usage: seed-target.sh load|save CACHE_FOLDER TARGET_FOLDER
set -euo pipefail
action=$1 cache=$2 target=$3
# Another toolchain, lock file or set of profiles is another set of dependencies.
key=$( (rustc -vV; cat Cargo.lock Cargo.toml) | sha256sum | cut -c1-16)
kept="$cache/target/$key"
case $action in
load)
    if [ ! -e "$target/debug" ] && [ -d "$kept" ]; then
        echo "== taking compiled dependencies from $kept"
        mkdir -p "$target"
        cp -a "$kept/." "$target/"
    fi
    ;;
save)
    if [ ! -d "$kept" ]; then
        echo "== keeping compiled dependencies in $kept"
        rm -rf "$cache/target"
        mkdir -p "$kept.new"
        cp -a "$target/debug" "$kept.new/"
        # The workspace's own crates are built again in each checkout.
        rm -rf "$kept.new/debug/incremental" "$kept.new/debug/.fingerprint/"{chiton,xtask,hello}*
        mv "$kept.new" "$kept"
    fi
    ;;
esac
