#!/usr/bin/env bash
# Runs a command in a network namespace of its own, which has nothing but loopback: for programs that
# bind fixed ports. Needs no root where user namespaces are allowed. Usage: own-network.sh COMMAND...
set -euo pipefail
exec unshare --user --map-root-user --net bash -c '
    ip link set lo up
    # An address that is no loopback address, for programs that refuse those.
    ip address add 10.123.0.1/32 dev lo
    ip route add default dev lo
    exec "$@"' own-network "$@"
