#!/bin/bash
# Builds images by buildah, in a Debian whose root this is, into /srv/images:
# pause, busybox, and kube-scheduler of /srv/kubernetes as $SCHEDULER; or, where there is $OURS,
# /srv/context/Dockerfile as that, on /srv/built/{debian,slim}.tar.
set -euo pipefail
mkdir /srv/work
cd /srv/work

# TAG, and a Dockerfile for a folder, this one if there is no other, as stdin.
build() {
    cat > /srv/Dockerfile
    buildah build --quiet --isolation chroot --tag "$1" --file /srv/Dockerfile "${2-.}" > /dev/null
}

# FILE TAG
save() {
    rm -f "/srv/images/$1.tar"
    buildah push --quiet "$2" "docker-archive:/srv/images/$1.tar:$2"
}

# FILE TAG, and the same.
make() {
    build "$2"
    save "$1" "$2"
}

small() {
    mkdir bin
    cp /usr/bin/busybox bin
    for each in sh sleep true; do ln -s busybox "bin/$each"; done
    make busybox docker.io/library/busybox:stable <<'END'
FROM scratch
COPY bin /bin
CMD ["/bin/sh"]
END
    # It ends at once when it is told to, as the real one.
    make pause registry.k8s.io/pause:3.10 <<'END'
FROM scratch
COPY bin /bin
ENTRYPOINT ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait; done"]
END
    cp /srv/kubernetes/kube-scheduler .
    make kube-scheduler "$SCHEDULER" <<'END'
FROM scratch
COPY kube-scheduler /usr/local/bin/
ENV PATH=/usr/local/bin
ENTRYPOINT ["kube-scheduler"]
END
}

# The Dockerfile as it is. Debian's packages, with their Python, stand in for its base images.
extender() {
    python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    debian=$(. /etc/os-release; echo "$VERSION_CODENAME")
    from=docker.io/library/python:$python
    printf 'FROM scratch\nADD slim.tar /\n' | build "$from-slim-$debian" /srv/built
    printf 'FROM scratch\nADD debian.tar /\n' | build "$from-$debian" /srv/built
    # Its own limits may be above those of this machine.
    certificates=/etc/ssl/certs/ca-certificates.crt
    buildah build --isolation chroot --network host --pull=never --tag "$OURS" \
        --build-arg "PYTHON=$python" --build-arg "DEBIAN=$debian" \
        --build-arg "SOURCE_DATE_EPOCH=$COMMIT_TIME" \
        --ulimit "nofile=$(ulimit -Hn)" --ulimit "nproc=$(ulimit -Hu | sed s/unlimited/-1/)" \
        --volume $certificates:$certificates:ro /srv/context
    save extender "$OURS"
}

if [[ ${OURS-} ]]; then extender; else small; fi
