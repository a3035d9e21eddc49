#!/usr/bin/env bash
# Runs the MCP conformance suite directly against the Go SDK's everything-server
# and through Placet, in both eras of the protocol, and compares. Everything it
# fetches goes to .cache/conformance. Then has placet connect's OAuth client sign in
# at the suite's issuers (client scenarios auth/*). Needs Go, npm and bash.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=$root/.cache/conformance
mkdir -p "$cache/bin" "$cache/out"

suite=@modelcontextprotocol/conformance@0.2.0-alpha.12
node=node@24
if [ ! -x "$cache/node_modules/node/bin/node" ] || [ ! -d "$cache/node_modules/@modelcontextprotocol/conformance" ]; then
	(cd "$cache" && [ -f package.json ] || (cd "$cache" && npm init -y >/dev/null))
	(cd "$cache" && npm install --no-audit --no-fund --save-exact "$suite" "$node" >/dev/null)
	# npm may hold back install scripts; node's only picks the binary for this machine.
	[ -x "$cache/node_modules/node/bin/node" ] || (cd "$cache/node_modules/node" && node installArchSpecificPackage.js >/dev/null)
fi
export PATH=$cache/node_modules/node/bin:$PATH
[ -x "$cache/bin/everything-server" ] ||
	GOBIN=$cache/bin go install github.com/modelcontextprotocol/go-sdk/conformance/everything-server@v1.8.0
go build -o "$cache/bin/" ./conformance/gateway ./conformance/client ./conformance/compare

pids=()
cleanup() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done; }
trap cleanup EXIT

# free_port prints a port that nobody listens on.
free_port() { node -e 's=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }
# until_open PORT waits until somebody listens.
until_open() {
	for _ in $(seq 1 200); do
		(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
		sleep 0.05
	done
	echo "nothing listens on port $1" >&2
	return 1
}
# leg REVISION NAME URL runs the server leg; its verdict is compare's to give.
leg() {
	rm -rf "$cache/out/$1/$2"
	mkdir -p "$cache/out/$1"
	node "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$3" \
		--requirements "$1" -o "$cache/out/$1/$2" >"$cache/out/$1/$2.txt" 2>&1 || true
}

# clients REVISION runs the client scenarios of auth/.
clients() {
	rm -rf "$cache/out/$1/client"
	selection="--requirements $1"
	# In the older revision an unrelated scenario keeps the suite from ending.
	[ "$1" = 2026-07-28 ] || selection="--suite auth --spec-version $1"
	# shellcheck disable=SC2086
	node "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" client --command "$cache/bin/client" \
		$selection -o "$cache/out/$1/client" >"$cache/out/$1/client.txt" 2>&1 || true
	"$cache/bin/compare" -revision "$1" -scored "$cache/out/$1.list" -client "$cache/out/$1/client"
}

failed=0
for revision in 2026-07-28 2025-11-25; do
	stateless=true
	[ "$revision" = 2026-07-28 ] || stateless=false
	# Two servers, so that the direct run leaves nothing behind for the other.
	ports=()
	for _ in direct behind; do
		port=$(free_port)
		"$cache/bin/everything-server" -http "127.0.0.1:$port" -stateless=$stateless 2>/dev/null &
		pids+=($!)
		until_open "$port"
		ports+=("$port")
	done
	front=$(free_port)
	"$cache/bin/gateway" -listen "127.0.0.1:$front" -upstream "http://127.0.0.1:${ports[1]}" >/dev/null &
	pids+=($!)
	until_open "$front"
	node "$cache/node_modules/@modelcontextprotocol/conformance/dist/index.js" list --requirements "$revision" >"$cache/out/$revision.list"
	leg "$revision" direct "http://127.0.0.1:${ports[0]}/mcp"
	leg "$revision" through "http://127.0.0.1:$front/mcp"
	"$cache/bin/compare" -revision "$revision" -scored "$cache/out/$revision.list" -direct "$cache/out/$revision/direct" \
		-through "$cache/out/$revision/through" -baseline conformance/baseline.yml || failed=1
	clients "$revision" || failed=1
done
exit $failed
