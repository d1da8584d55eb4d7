#!/bin/bash
# Makes a folder the root of new namespaces and runs a command there as their process 1:
#   enter.sh ROOT [FOLDER:PLACE ...] -- COMMAND ...
# Started by `unshare`; what it mounts is gone with the namespaces.
set -euo pipefail

mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
shift
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
while [[ $1 != -- ]]; do
    mkdir -p "${1#*:}"
    mount --bind "${1%:*}" "${1#*:}"
    shift
done
shift

# Of the cgroup that this process is in, which is the root of its namespace.
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    # Without version 2 beside it (`unified`), which crun refuses.
    while IFS=: read -r _ controllers _; do
        [[ $controllers ]] || continue
        mkdir "sys/fs/cgroup/${controllers#name=}"
        [[ $controllers != name=* ]] || controllers=none,$controllers
        mount -t cgroup -o "$controllers" cgroup "sys/fs/cgroup/${controllers##*name=}"
    done < /proc/self/cgroup
fi

# The kubelet insists on these; here it finds them as it wants them, and the machine keeps its own.
for each in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file=run/sysctl/${each%=*}
    mkdir -p "${file%/*}"
    echo "${each#*=}" > "$file"
    mount --bind "$file" "proc/sys/${each%=*}"
done

# A pod with users of its own gets a /proc of its own only where one is to be seen whole.
mkdir -p .proc
mount -t proc proc .proc

mkdir -p .machine
pivot_root . .machine
umount -l .machine
cd /
exec "$@"
