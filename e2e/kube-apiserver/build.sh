#!/usr/bin/env bash
# Builds the API server that the Kubernetes tests run against, once for what is
# in this directory and the version of Go, into a cache outside the tree, and
# prints where it is. With --path it builds nothing: it prints where it is, or
# reports that it is not built and exits with 1.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off

case "${1:-}" in
"" | --path) ;;
*) echo "usage: build.sh [--path]" >&2; exit 2 ;;
esac
hash=$({ cat go.mod go.sum ./*.go; go version; } | sha256sum | cut -c 1-16)
cache=${TOCSIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tocsin}
bin=$cache/kube-apiserver-$hash
if [ ! -x "$bin" ]; then
	if [ "${1:-}" = --path ]; then
		echo "kube-apiserver: it isn't built: run make kube-apiserver" >&2
		exit 1
	fi
	mkdir -p "$cache"
	echo "kube-apiserver: building $bin, which takes minutes" >&2
	# Whole, or not there: another build may run beside this one.
	trap 'rm -f "$bin.$$"' EXIT
	go build -trimpath -ldflags "-s -w" -o "$bin.$$" . >&2
	mv "$bin.$$" "$bin"
	# 110 MB each: those of other times go after a month.
	find "$cache" -maxdepth 1 -name 'kube-apiserver-*' -mtime +30 -delete
fi
echo "$bin"
