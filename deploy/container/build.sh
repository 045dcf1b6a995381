#!/bin/sh
# build.sh PREFIX: install hongbao and its packages, locked by their hashes, into PREFIX; PREFIX/bin/hongbao is the command.
# For images and for hosts alike. It needs Python 3.11 to 3.14 (HONGBAO_PYTHON names one) with venv, and uv or pip; what is
# at PREFIX is replaced. Nothing of the checkout is needed afterwards.
set -eu
[ $# -eq 1 ] || { echo "usage: build.sh PREFIX" >&2; exit 2; }
here=$(cd "$(dirname "$0")/../.." && pwd)
locked=$here/requirements/run.txt
python=${HONGBAO_PYTHON:-python3}
"$python" -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' ||
    { echo "error: $python is no Python 3.11 to 3.14; name one: HONGBAO_PYTHON=…" >&2; exit 1; }

if command -v uv >/dev/null; then
    # A container that may not write to its image would compile everything at each start.
    export UV_COMPILE_BYTECODE="${UV_COMPILE_BYTECODE:-1}" UV_NO_CONFIG=1
    uv venv --quiet --clear --python "$python" "$1"
    uv pip install --quiet --no-progress --python "$1/bin/python" --require-hashes -r "$locked"
    uv pip install --quiet --no-progress --python "$1/bin/python" --no-deps --no-build-isolation "$here"
else
    "$python" -I -m venv --clear "$1"
    pip="$1/bin/python -m pip --disable-pip-version-check install --quiet --no-cache-dir --no-input --root-user-action ignore"
    $pip --require-hashes -r "$locked"
    $pip --no-deps --no-build-isolation --no-index "$here"
fi
"$1/bin/hongbao" --version
