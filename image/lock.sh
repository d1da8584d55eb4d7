#!/bin/sh
# Writes the lock files anew, for Python 3.11 to 3.14: every version and hash that the image is made
# of, and those of the tools that make a release.
#   image/lock.sh [--upgrade]
set -eu
cd "$(dirname "$0")/.."

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
python3 -m venv "$WORK/uv"
"$WORK/uv/bin/python" -m pip install --quiet --disable-pip-version-check "uv>=0.5"

for LOCK in "setup.cfg image/requirements.lock" \
    "image/build-requirements.in image/build-requirements.lock" \
    "release/requirements.in release/requirements.lock"; do
    # shellcheck disable=SC2086  # two words
    set -- $LOCK "$@"
    INPUT=$1 OUTPUT=$2
    shift 2
    "$WORK/uv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-annotate --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" "$@" --output-file "$OUTPUT" "$INPUT"
    echo "$OUTPUT: $(grep -c '==' "$OUTPUT") packages"
done
