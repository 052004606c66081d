#!/usr/bin/env bash
# Builds the images of Tocsin from this checkout: static binaries by the Go
# toolchain that is here, then a stage of the Dockerfile each. The environment:
#
#   REGISTRY    what stands before the names (ghcr.io/tocsin-bus)
#   TAG         the tag (local)
#   PLATFORMS   such as linux/amd64,linux/arm64; by default that of this machine
#   IMAGES      which of them, such as "tocsin-ingest"; by default all
#   CONTEXT     where to leave the binaries and what else the Dockerfile needs; by
#               default a directory that is removed at the end
#   VERSION, COMMIT, SOURCE_DATE_EPOCH   by default as git has them
#   BINARIES    yes: no images, only CONTEXT
#   PUSH        yes: to the registry, as one image for all platforms
#   NO_CACHE    yes: every layer anew
#   OCI         a directory for archives of the images, in place of Docker
#
# Several platforms need docker buildx, and PUSH or OCI, or a Docker that keeps images
# of several (the containerd image store). Without buildx the older builder does it.
set -euo pipefail
cd "$(dirname "$0")/../.."

registry=${REGISTRY:-ghcr.io/tocsin-bus}
tag=${TAG:-local}
platforms=${PLATFORMS:-linux/$(go env GOARCH)}
images=${IMAGES:-tocsin-ingest tocsin-detector tocsin-gateway tocsin-dashboard tocsin-kubewatch tocsin}
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
commit=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
# What a build writes of the time is that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

context=${CONTEXT:-}
if [ -z "$context" ]; then
	context=$(mktemp -d)
	trap 'rm -rf "$context"' EXIT
fi
state=$context/deploy/images/state # as goreleaser lays it out
mkdir -p "$state"
cp LICENSE deploy/images/Dockerfile "$context/"
cp deploy/images/state/.keep "$state/"
chmod 0700 "$state"
chmod 0644 "$context/LICENSE" "$context/Dockerfile" "$state/.keep"

mains() {
	for image in $images; do
		case $image in
		tocsin) echo ./services/tocsin ;;
		tocsin-*) echo "./services/${image#tocsin-}/cmd/$image" ;;
		esac
	done
}
service=github.com/tocsin-bus/tocsin/shared/service
for platform in ${platforms//,/ }; do
	mkdir -p "$context/$platform"
	# The tag image: roots of trust are in the binary. No VCS stamp: it would differ
	# where a checkout has no .git; the version is said by the linker's flags.
	# shellcheck disable=SC2046 # a main each
	CGO_ENABLED=0 GOOS=${platform%%/*} GOARCH=$(cut -d/ -f2 <<<"$platform") go build -trimpath -buildvcs=false -tags image \
		-ldflags "-s -w -X $service.version=$version -X $service.commit=$commit" -o "$context/$platform/" $(mains)
done
find "$context" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} + 2>/dev/null || true # BSD's touch has no such date: BuildKit rewrites it
if [ "${BINARIES:-}" = yes ]; then exit 0; fi

labels=(
	--label "org.opencontainers.image.version=$version"
	--label "org.opencontainers.image.revision=$commit"
	--label "org.opencontainers.image.created=$created"
)
for image in $images; do
	name=$registry/$image:$tag
	if docker buildx version >/dev/null 2>&1; then
		output=type=docker
		case $platforms in *,*) output=type=image ;; esac
		if [ "${PUSH:-}" = yes ]; then output=type=image,push=true; fi
		if [ -n "${OCI:-}" ]; then mkdir -p "$OCI"; output=type=oci,dest=$OCI/$image.tar; fi
		docker buildx build ${NO_CACHE:+--no-cache} --platform "$platforms" --target "$image" "${labels[@]}" --provenance=false \
			--build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" --output "$output,name=$name,rewrite-timestamp=true" "$context"
	else
		if [ -n "${OCI:-}" ]; then echo "archives need docker buildx, which is not here" >&2; exit 1; fi
		case $platforms in *,*) echo "images for $platforms need docker buildx, which is not here: name one platform" >&2; exit 1 ;; esac
		DOCKER_BUILDKIT=0 docker build -q --platform "$platforms" --build-arg "TARGETPLATFORM=$platforms" \
			--target "$image" "${labels[@]}" -t "$name" "$context" >/dev/null
		if [ "${PUSH:-}" = yes ]; then docker push "$name"; fi
	fi
	echo "$name"
done
