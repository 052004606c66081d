#!/bin/sh
# Checks the types of the browser script, if Node is installed.
set -eu
cd "$(dirname "$0")"

if ! command -v node >/dev/null || ! command -v npm >/dev/null || ! ./install.sh; then
	echo "tsc: skipped: Node is not installed, or npm cannot install the packages"
	exit 0
fi
exec node node_modules/typescript/bin/tsc --project .
