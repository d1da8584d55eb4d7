#!/bin/sh
# Pin the modules of a version of Kubernetes: tests/kubernetes/pin.sh 1.37.1
#
# k8s.io/kubernetes replaces its staging modules with folders of its own repository, which no other
# module can do. Their releases have the same content: v0.37.1 belongs to v1.37.1.
set -eu
version=$1
minor=${version%.*}
cd "$(dirname "$0")"
upstream=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
mkdir -p "$minor"
cd "$minor"
rm -f go.sum
{
    echo "module kubernetes.test"
    grep -E '^(go|godebug) ' "$upstream"
    echo "tool ("
    for program in kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet; do
        echo "k8s.io/kubernetes/cmd/$program"
    done
    echo ")"
    echo "require k8s.io/kubernetes v$version"
    echo "replace ("
    sed -n "s|^\t*\(k8s.io/[a-z-]*\) => ./staging/.*|\1 => \1 v0.${version#1.}|p" "$upstream"
    echo ")"
} > go.mod
go mod tidy
