#!/bin/sh
# Builds dist/tocsin.js when it is missing or older than what it is made from.
# Without Node the binary is built all the same, and says where the script is
# asked for that it has none; a mistake in the sources is an error.
set -eu
cd "$(dirname "$0")"

without() {
	if [ -f dist/tocsin.js ]; then
		echo "tocsin.js: $1: the binary keeps the page script that was built before"
	else
		echo "tocsin.js: $1: the binary has no page script"
	fi
	exit 0
}

if [ -f dist/tocsin.js ] && [ -z "$(find src build.mjs package.json package-lock.json tsconfig.json -newer dist/tocsin.js)" ]; then
	exit 0
fi
for tool in node npm; do
	command -v "$tool" >/dev/null || without "there is no $tool here"
done
node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || without "Node $(node -v) is too old, 18 is needed"
./install.sh || without "npm can't install its packages (see npm ci in $PWD)"
exec node build.mjs
