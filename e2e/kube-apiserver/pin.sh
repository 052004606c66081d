#!/usr/bin/env bash
# Pins k8s.io/kubernetes to the version that is named, say 1.36.3. Its go.mod
# takes the modules of its own tree (k8s.io/api, k8s.io/client-go, ...) from
# ./staging, which holds for its own builds alone: here each is replaced by the
# twin of it that is published, v0.36.3. etcd's server is of the version of its
# clients there.
set -euo pipefail
cd "$(dirname "$0")"
export GOWORK=off

version=${1:?which version of Kubernetes? usage: pin.sh 1.36.3}
mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
etcd=$(sed -n 's|^\tgo.etcd.io/etcd/client/v3 \(v[0-9.]*\)$|\1|p' "$mod")
edits=(-require "k8s.io/kubernetes@v$version" -require "go.etcd.io/etcd/server/v3@$etcd" -require "go.etcd.io/etcd/client/v3@$etcd")
for module in $(sed -n 's|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' "$mod"); do
	edits+=(-replace "$module=$module@v0.${version#1.}")
done
go mod edit "${edits[@]}"
go mod tidy
