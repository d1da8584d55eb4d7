#!/bin/sh
# Installs the service and what it needs into a folder of its own:
#   image/install.sh PYTHON TARGET
# The Dockerfile's only build step; `make image-steps` runs the same without a container engine.
# Everything else comes as wheels with the hashes of the lock files; extender/model/_names.c is compiled
# where there is a C compiler.
set -eu

PYTHON=$1
TARGET=$2
SOURCE=$(cd "$(dirname "$0")/.." && pwd)
: "${SOURCE_DATE_EPOCH:=0}"
export SOURCE_DATE_EPOCH

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
PIP_FLAGS="--quiet --disable-pip-version-check --no-cache-dir --no-compile"

# The tools that build the project's own wheel stay in the work folder.
"$PYTHON" -m venv "$WORK/build"
# shellcheck disable=SC2086  # flags, word by word
"$WORK/build/bin/python" -m pip install $PIP_FLAGS --require-hashes --only-binary :all: \
    -r "$SOURCE/image/build-requirements.lock"
cp -R "$SOURCE/extender" "$SOURCE/setup.py" "$SOURCE/setup.cfg" "$SOURCE/pyproject.toml" \
    "$SOURCE/README.md" "$SOURCE/LICENSE" "$WORK/"
# No path of the work folder in what is compiled: it has another name each time.
CFLAGS="${CFLAGS:-} -g0 -ffile-prefix-map=$WORK=." "$WORK/build/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-index \
    --no-build-isolation --wheel-dir "$WORK/wheels" "$WORK"

"$PYTHON" -m venv --without-pip "$TARGET"
# shellcheck disable=SC2086
"$WORK/build/bin/python" -m pip --python "$TARGET/bin/python" install $PIP_FLAGS \
    --require-hashes --no-deps --only-binary :all: -r "$SOURCE/image/requirements.lock"
# shellcheck disable=SC2086
"$WORK/build/bin/python" -m pip --python "$TARGET/bin/python" install $PIP_FLAGS \
    --no-deps --no-index --find-links "$WORK/wheels" runtimeclass-extender
# Compiled once, checked by content: with a read-only root nothing can be compiled later.
PYTHONHASHSEED=0 "$TARGET/bin/python" -m compileall -q --invalidation-mode unchecked-hash "$TARGET/lib"
"$TARGET/bin/runtimeclass-extender" --version
"$TARGET/bin/python" -I -c 'import extender.model.names; print("compiled part:", extender.model.names.IS_COMPILED)'
