#!/bin/sh
# Builds the page into dist when it is missing or older than what it is made
# from. Without Node the binary is built all the same, and says at / how to get
# the page; a mistake in the sources is an error.
set -eu
cd "$(dirname "$0")"

without() {
	if [ -f dist/index.html ]; then
		echo "dashboard: $1: the binary keeps the page that was built before"
	else
		echo "dashboard: $1: the binary has no page"
	fi
	exit 0
}

if [ -f dist/index.html ] && [ -z "$(find src index.html vite.config.ts package.json package-lock.json tsconfig.json -newer dist/index.html)" ]; then
	exit 0
fi
for tool in node npm; do
	command -v "$tool" >/dev/null || without "there is no $tool here"
done
node fit.mjs ||
	without "Node $(node -v) is not fit for it, 20.19 or 22.12 is needed"
./install.sh || without "npm can't install its packages (npm ci in $PWD says why)"
node node_modules/typescript/bin/tsc
node node_modules/vite/bin/vite.js build --logLevel warn
# Whole, or not there: files of another build would go into the binary too.
rm -rf dist/assets dist/licenses.txt dist/index.html
mv .built/assets .built/licenses.txt dist
mv .built/index.html dist
rm -rf .built
