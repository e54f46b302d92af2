#!/usr/bin/env bash
# Runs a script (standard input) with the probe and a real Envoy: ENVOY=PATH run.sh < scripts/NAME
set -euo pipefail
cd "$(dirname "$0")"
envoy=${ENVOY:-envoy}
work=$(mktemp -d)
GOTOOLCHAIN=local CGO_ENABLED=0 go build -trimpath -o "$work/probe" .

start_envoy() {
    "$envoy" -c envoy.yaml --use-dynamic-base-id -l warning --drain-time-s 2 --parent-shutdown-time-s 3 \
        >>"$work/envoy.log" 2>&1 &
    envoy_pid=$!
    sleep 2.5
}
stop() {
    kill -9 "$1" && wait "$1" 2>/dev/null || true
}
trap 'stop $envoy_pid; stop $probe_pid; cat "$work/envoy.log"; rm -rf "$work"' EXIT

mkfifo "$work/commands"
exec 9<>"$work/commands"
"$work/probe" 127.0.0.1:19000 <&9 9>&- &
probe_pid=$!
start_envoy
while read -r word rest; do
    case $word in
    envoy-restart) stop "$envoy_pid"; start_envoy ;;
    dump) sleep 0.3; curl -s "127.0.0.1:19901/$rest" ;;
    # The probe waits too: nothing is sent before its time.
    sleep) echo "sleep $rest" >&9; sleep "${rest%s}" ;;
    *) echo "$word $rest" >&9; sleep 0.1 ;;
    esac
done
sleep 4
