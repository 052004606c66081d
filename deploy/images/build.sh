#!/usr/bin/env bash
# Builds the images of Tocsin from this checkout: a static binary for each platform
# with the local Go toolchain, then one stage of the Dockerfile for each image.
# Environment:
#
#   REGISTRY    prefix of the image names (ghcr.io/tocsin-bus)
#   TAG         tag of the images (local)
#   PLATFORMS   such as linux/amd64,linux/arm64; default: this machine's
#   IMAGES      images to build, such as "tocsin-ingest"; default: all
#   CONTEXT     directory for the binaries and the other files of the Dockerfile;
#               default: a temporary directory
#   VERSION, COMMIT, SOURCE_DATE_EPOCH   default: from git
#   BINARIES    yes: fill CONTEXT only, build no images
#   PUSH        yes: push each image to the registry, for all platforms
#   NO_CACHE    yes: rebuild every layer
#   OCI         directory for OCI archives of the images, instead of Docker
#
# Several platforms need docker buildx, and either PUSH, OCI or Docker's containerd
# image store. Without buildx, the script uses Docker's classic builder.
set -euo pipefail
cd "$(dirname "$0")/../.."

registry=${REGISTRY:-ghcr.io/tocsin-bus}
tag=${TAG:-local}
platforms=${PLATFORMS:-linux/$(go env GOARCH)}
images=${IMAGES:-tocsin-ingest tocsin-detector tocsin-gateway tocsin-dashboard tocsin-kubewatch tocsin-investigator tocsin}
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
commit=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
# All timestamps in a build are the time of the commit.
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

service=github.com/tocsin-bus/tocsin/shared/service
for platform in ${platforms//,/ }; do
	mkdir -p "$context/$platform"
	# The tag image puts root certificates into the binary. No VCS stamp, which would
	# differ where a checkout has no .git: the linker's flags set version and commit.
	CGO_ENABLED=0 GOOS=${platform%%/*} GOARCH=$(cut -d/ -f2 <<<"$platform") go build -trimpath -buildvcs=false -tags image \
		-ldflags "-s -w -X $service.version=$version -X $service.commit=$commit" -o "$context/$platform/tocsin" ./services/tocsin
done
find "$context" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} + 2>/dev/null || true # BSD's touch has no -d @TIME; BuildKit rewrites the times anyway
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
		if [ -n "${OCI:-}" ]; then echo "OCI archives need docker buildx, which is not installed" >&2; exit 1; fi
		case $platforms in *,*) echo "images for $platforms need docker buildx, which is not installed; set PLATFORMS to one platform" >&2; exit 1 ;; esac
		DOCKER_BUILDKIT=0 docker build -q --platform "$platforms" --build-arg "TARGETPLATFORM=$platforms" \
			--target "$image" "${labels[@]}" -t "$name" "$context" >/dev/null
		if [ "${PUSH:-}" = yes ]; then docker push "$name"; fi
	fi
	echo "$name"
done
