#!/bin/bash
# The node's own cgroup, of each hierarchy that the machine has:
#   cgroup.sh make            before there are namespaces
#   cgroup.sh split PID       version 2 wants no processes where there are further groups
#   cgroup.sh join COMMAND    runs it there
#   cgroup.sh remove          once its processes are ending
set -euo pipefail

groups=()
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    groups=(/sys/fs/cgroup/runtimeclass-node)
else
    for each in /sys/fs/cgroup/*; do
        [[ ! -d $each || -L $each || $each == */unified ]] || groups+=("$each/runtimeclass-node")
    done
fi

for each in "${groups[@]}"; do
    case $1 in
    make)
        mkdir -p "$each"
        for name in cpuset.cpus cpuset.mems; do
            # A new cgroup of version 1 has none, and takes no process.
            [[ ! -e $each/$name || $(< "$each/$name") ]] || cat "$each/../$name" > "$each/$name"
        done ;;
    split)
        [[ ! -e $each/cgroup.controllers ]] || { mkdir "$each/init"; echo "$2" > "$each/init/cgroup.procs"; } ;;
    join)
        [[ ! -d $each/init ]] || each+=/init
        echo $$ > "$each/cgroup.procs" ;;
    remove)
        # A process that is ending keeps it for a moment.
        for (( tried = 0; tried < 300; tried++ )); do
            [[ -d $each ]] || continue 2
            find "$each" -depth -type d -exec rmdir {} + 2> /dev/null || sleep 0.1
        done
        echo "$each can't be removed" >&2
        exit 1 ;;
    esac
done

[[ $1 != join ]] || exec "${@:2}"
