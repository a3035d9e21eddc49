#!/usr/bin/env bash
# Builds and tests the TypeScript packages: run.sh test, or run.sh build, which prints
# the node to run what was built with; run.sh node prints that and builds nothing. What is fetched and built lies in
# .cache/typescript, at the same depth as here, so that the tests find the vectors of
# package verify and no foreign file lies where Go looks for packages. Needs npm and bash.
set -euo pipefail
cd "$(dirname "$0")"
cache=$(cd ../.. && pwd)/.cache/typescript
mkdir -p "$cache/verify"

# fetch runs npm; status 75 says that it is not our code that failed.
fetch() { npm "$@" --no-audit --no-fund >"$cache/npm.log" 2>&1 || { cat "$cache/npm.log" >&2; exit 75; }; }

old=$(node -p 'parseInt(process.versions.node) < 22' 2>/dev/null || echo true)
if [ "$old" = true ]; then
	if [ ! -x "$cache/node_modules/node/bin/node" ]; then
		[ -f "$cache/package.json" ] || echo '{"private":true}' >"$cache/package.json"
		fetch install --prefix "$cache" --save-exact node@24
		# npm may hold back install scripts; node's only picks the binary for this machine.
		[ -x "$cache/node_modules/node/bin/node" ] || (cd "$cache/node_modules/node" && node installArchSpecificPackage.js >/dev/null)
	fi
	export PATH=$cache/node_modules/node/bin:$PATH
fi
[ "${1:-}" != node ] || { command -v node; exit; }

for f in src test example; do rm -rf "$cache/verify/$f"; done
cp -R verify/src verify/test verify/example verify/package.json verify/package-lock.json verify/tsconfig.json "$cache/verify/"
cd "$cache/verify"
if ! cmp -s package-lock.json node_modules/locked; then
	fetch ci --ignore-scripts
	cp package-lock.json node_modules/locked
fi
rm -rf dist
case ${1:-test} in
build) npm run --silent build >&2 && command -v node ;;
test) npm test --silent ;;
esac
