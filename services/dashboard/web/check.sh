#!/bin/sh
# Checks the types of the page's sources, where there is Node.
set -eu
cd "$(dirname "$0")"

if ! command -v node >/dev/null || ! command -v npm >/dev/null || ! ./install.sh; then
	echo "tsc: skipped, there is no Node here or no package registry"
	exit 0
fi
exec node node_modules/typescript/bin/tsc
