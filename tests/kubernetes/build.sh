#!/usr/bin/env bash
# Build etcd and the programs of a version of Kubernetes: tests/kubernetes/build.sh 1.37 FOLDER
set -euo pipefail
version=$1
folder=$2
cd "$(dirname "$0")"
programs=(kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet)

fail() {
    echo "make kubernetes: $1" >&2
    exit 1
}

# Says each hundredth package of many, and all that the compiler complains of.
progress() {
    local line compiled=0
    while read -r line; do
        if [[ $line != +([[:alnum:]._/~+-]) ]]; then
            echo "$line" >&2
        elif ((++compiled % 100 == 0)); then
            echo "  $compiled of at most $1 packages, $SECONDS s"
        fi
    done
}

# build LDFLAGS OUTPUT PACKAGE…
build() {
    go build -v -ldflags "$1" -o "$2" "${@:3}" 2>&1 | progress "$(go list -deps "${@:3}" | wc -l)"
}

[[ -f $version/go.mod ]] || fail "$version is none of $(echo 1.*)"
# Of the content, so that a fresh clone has nothing to build where an earlier one has built.
made_from=$(cat "$version"/go.{mod,sum} etcd/go.{mod,sum} | git hash-object --stdin)
if [[ $(cat "$folder/.made-from" 2> /dev/null) == "$made_from" ]]; then
    echo "$folder has Kubernetes $version already"
    exit
fi
command -v go > /dev/null || fail "there is no Go here; https://go.dev/dl has it, and CONTRIBUTING.md another way"
mkdir -p "$folder" 2> /dev/null && [[ -w $folder ]] ||
    fail "$folder can't be written; another folder: make kubernetes KUBEBUILDER_ASSETS=\$HOME/kubebuilder"
made=$(mktemp -d "$folder/.made.XXXXXX")
trap 'rm -rf "$made"' EXIT
export CGO_ENABLED=0

echo "building etcd for $folder ..."
(cd etcd && build "-s -w" "$made/etcd" go.etcd.io/etcd/server/v3)

cd "$version"
release=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
echo "building ${programs[*]} $release (ten minutes on two idle cores, the first time) ..."
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$release -X $package.gitTreeState=clean"
    flags+=" -X $package.gitMajor=${version%.*} -X $package.gitMinor=${version#*.}"
done
build "$flags" "$made/" "${programs[@]/#/k8s.io/kubernetes/cmd/}"

"$made/kube-apiserver" --version | grep -qxF "Kubernetes $release" || fail "kube-apiserver says another version than $release"
mv -f "$made"/* "$folder"
echo "$made_from" > "$folder/.made-from"
echo "$folder has Kubernetes $release and etcd now, after $SECONDS s"
