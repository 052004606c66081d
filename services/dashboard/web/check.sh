#!/bin/sh
# Checks the types of the page's sources, if Node is installed.
set -eu
cd "$(dirname "$0")"

if ! command -v node >/dev/null || ! command -v npm >/dev/null || ! ./install.sh; then
	echo "tsc: skipped, Node or its packages are not installed"
	exit 0
fi
exec node node_modules/typescript/bin/tsc
