#!/usr/bin/env bash
# Build Helm: tests/kubernetes/helm.sh FOLDER
set -euo pipefail
folder=$1
cd "$(dirname "$0")/helm"
release=$(sed -n 's|^\thelm.sh/helm/v4 \(v[0-9.]*\).*|\1|p' go.mod)
if [[ -x $folder/helm && $("$folder/helm" version --short 2> /dev/null) == "$release"* ]]; then
    echo "$folder has Helm $release already"
    exit
fi
command -v go > /dev/null || {
    echo "make helm: there is no Go here; https://go.dev/dl has it" >&2
    exit 1
}
mkdir -p "$folder"
echo "building Helm $release for $folder (two minutes, the first time) ..."
CGO_ENABLED=0 go build -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$release" \
    -o "$folder/helm" helm.sh/helm/v4/cmd/helm
