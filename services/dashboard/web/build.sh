#!/bin/sh
# Builds the page into dist if it is missing or older than its sources. Without
# Node, it does nothing: the binary then serves an explanation instead of the page.
set -eu
cd "$(dirname "$0")"

# without ends the build for a reason, without an error.
without() {
	if [ -f dist/index.html ]; then
		echo "dashboard: $1: the page is not rebuilt"
	else
		echo "dashboard: $1: the binary will have no page"
	fi
	exit 0
}

if [ -f dist/index.html ] && [ -z "$(find src index.html vite.config.ts package.json package-lock.json tsconfig.json -newer dist/index.html)" ]; then
	exit 0
fi
for tool in node npm; do
	command -v "$tool" >/dev/null || without "$tool is not installed"
done
node fit.mjs ||
	without "Node $(node -v) is too old, 20.19 or 22.12 is required"
./install.sh || without "npm can't install the packages (run npm ci in $PWD to see why)"
node node_modules/typescript/bin/tsc
node node_modules/vite/bin/vite.js build --logLevel warn
# Remove the old files first: all of dist is embedded in the binary.
rm -rf dist/assets dist/licenses.txt dist/index.html
mv .built/assets .built/licenses.txt dist
mv .built/index.html dist
rm -rf .built
