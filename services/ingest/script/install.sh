#!/bin/sh
# Installs the packages of package-lock.json, unless they are installed.
set -eu
cd "$(dirname "$0")"

have=node_modules/.package-lock.json
if [ -f "$have" ] && [ -z "$(find package-lock.json -newer "$have")" ]; then exit 0; fi
npm ci --silent --no-audit --no-fund --ignore-scripts --prefer-offline --fetch-retries=1
touch "$have"
