#!/bin/sh
# Builds dist/tocsin.js if it is missing or older than its sources. Without Node
# or npm it succeeds without building: the binary then answers requests for the
# script with 503. An error in the sources makes it fail.
set -eu
cd "$(dirname "$0")"

without() {
	if [ -f dist/tocsin.js ]; then
		echo "tocsin.js: $1: the binary keeps the browser script that was built before"
	else
		echo "tocsin.js: $1: the binary has no browser script"
	fi
	exit 0
}

if [ -f dist/tocsin.js ] && [ -z "$(find src build.mjs package.json package-lock.json tsconfig.json -newer dist/tocsin.js)" ]; then
	exit 0
fi
for tool in node npm; do
	command -v "$tool" >/dev/null || without "$tool is not installed"
done
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || without "Node $(node -v) is too old: 18 or newer is needed"
./install.sh || without "npm can't install its packages (see npm ci in $PWD)"
exec node build.mjs
