#!/usr/bin/env bash
# Fetches the clients of a folder, clients or claude, and runs its tests with them:
#
#   run.sh fetch FOLDER    what its lock file names
#   run.sh newest FOLDER   the newest versions, into a lock file of their own in FOLDER/newest
#   run.sh test FOLDER     with what was fetched; FOLDER/newest: with what is newest. PLACET names
#                          the built program
#
# What is fetched lies in .cache/integration, where Go does not look for packages. Needs npm and bash.
set -euo pipefail
cd "$(dirname "$0")"
folder=$2
cache=$(cd .. && pwd)/.cache/integration/$folder

# The clients want a node of 22 or newer.
node=$(bash ../sdk/typescript/run.sh node)
export PATH=${node%/*}:$PATH

# fetch runs npm in the cache; a lock file names no host that packages come from.
fetch() { npm "$@" --prefix "$cache" --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund; }

case $1 in
fetch)
	mkdir -p "$cache"
	cp "$folder/package.json" "$folder/package-lock.json" "$cache/"
	cmp -s "$folder/package-lock.json" "$cache/node_modules/locked" && exit
	fetch ci
	cp "$cache/package-lock.json" "$cache/node_modules/locked"
	;;
newest)
	cache=$cache/newest
	mkdir -p "$cache" "$folder/newest"
	rm -f "$cache/package-lock.json"
	cp "$folder/package.json" "$cache/"
	# shellcheck disable=SC2046
	fetch install --save-exact $(node -p 'Object.keys(require(process.argv[1]).dependencies).map((name) => `${name}@latest`).join(" ")' "$cache/package.json")
	cp "$cache/package.json" "$cache/package-lock.json" "$folder/newest/"
	cp "$cache/package-lock.json" "$cache/node_modules/locked"
	;;
test)
	# The tests stand beside node_modules, at the same depth as here.
	tests=${folder%/newest}
	rm -rf "${cache:?}/world" "${cache:?}/$tests"
	mkdir "$cache/$tests"
	cp -R world "$cache/"
	cp "$tests"/*.js "$cache/$tests/"
	cd "$cache"
	node --test --test-force-exit --test-timeout=120000 "$tests"/*.test.js
	;;
esac
