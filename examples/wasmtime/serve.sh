#!/bin/sh
# wasmtime with the guard before an MCP server. `serve.sh p3`: the form for WASI 0.3.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-p2} in
p2) form=p2-replay ;;
p3) form=p3-proxy-replay ;;
*) echo "usage: serve.sh [p2|p3]" >&2; exit 2 ;;
esac
component=$here/../../target/dist/context-guard-http-$form.wasm
[ -f "$component" ] || { echo "serve.sh: there is no $component: build it with \`cargo xtask dist\`" >&2; exit 1; }
exec wasmtime serve --addr 127.0.0.1:8080 -Scli \
    --env CONTEXT_GUARD_UPSTREAM="${UPSTREAM:-http://127.0.0.1:3001}" \
    --env CONTEXT_GUARD_SIGNING_KEYS="${CONTEXT_GUARD_SIGNING_KEYS:-$(head -c 32 /dev/urandom | base64)}" \
    --env CONTEXT_GUARD_CONFIG="${CONTEXT_GUARD_CONFIG:-{\}}" \
    "$component"
