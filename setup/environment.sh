# Sourced by ./run and ./test with $here set to the checkout; POSIX sh, for a Debian with nothing but its base system.
# `environment KIND` makes $python a Python that has what requirements/KIND.txt locks (KIND: run, bench or dev). If the
# environment is up to date, it compares two files and starts no program.
#
# A set-up that was killed is done again: .venv/KIND.locked is written last, and a .venv that still holds `unfinished`
# is removed. Two calls at the same time wait for each other.

tools=$here/.tools
venv=$here/.venv
python=$venv/bin/python

environment() {
    use_tools
    keep_bytecode
    is_current "$1" && return
    mkdir -p "$tools" 2>/dev/null && [ -w "$tools" ] ||
        die "cannot write to $here; run this as the owner of the checkout"
    exec 9>"$tools/lock"
    flock -w 900 9 || die "another set-up of $here is still running after 15 minutes; stop it and try again"
    # In a subshell: the program must not inherit the certificates that the set-up chooses.
    is_current "$1" || (build "$1") || exit 1
    exec 9>&-
    use_tools
}

is_current() {
    home=
    [ -x "$python" ] && [ ! -e "$venv/unfinished" ] &&
        { read -r home <"$venv/home" || :; } 2>/dev/null && [ "$home" = "$here" ] &&
        cmp -s "$here/requirements/$1.txt" "$venv/$1.locked"
}

build() {
    say "setting up $venv (once; about half a minute)"
    fetch_missing
    use_tools
    use_certificates
    find_python || die "Python 3.11 to 3.14 is needed and was neither found nor available from apt; install one" \
        "and try again, or name it in HONGBAO_PYTHON"
    make_venv
    install "$1"
    # dev holds what bench holds, bench what run holds.
    for kind in run bench dev; do
        cp "$here/requirements/$kind.txt" "$venv/$kind.locked"
        [ "$kind" != "$1" ] || break
    done
    rm "$venv/unfinished"
}

# Fetch what the machine lacks from its own Debian archive into .tools/root; needs no root and installs nothing.
fetch_missing() {
    missing=
    find_python || missing="python3 python3-pip-whl"
    [ -n "$missing" ] || find_pip || missing="python3-pip-whl"
    has_certificates || missing="$missing ca-certificates"
    find_memcached || missing="$missing memcached"
    [ -n "$missing" ] || return 0
    say "fetching$(printf ' %s' $missing)"
    # Not fatal here: what is missing is checked again, with a better message, where it is used.
    # shellcheck disable=SC2086
    sh "$here/setup/debian.sh" "$tools/root" $missing >&2 || :
    if [ -d "$tools/root/usr/share/ca-certificates/mozilla" ]; then
        cat "$tools/root/usr/share/ca-certificates/mozilla/"*.crt >"$tools/ca.pem"
    fi
}

find_memcached() { command -v memcached >/dev/null || [ -x "$tools/root/usr/bin/memcached" ]; }

# In this order: what the caller names, what the machine has, what was fetched.
has_certificates() {
    for certificates in "${PIP_CERT:-}" "${SSL_CERT_FILE:-}" "${REQUESTS_CA_BUNDLE:-}" \
        /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt "$tools/ca.pem"; do
        [ -s "$certificates" ] && return
    done
    return 1
}

# uv reads one variable, pip the other; a caller who sets one of them means both.
use_certificates() {
    has_certificates || return 0
    export SSL_CERT_FILE="${SSL_CERT_FILE:-$certificates}" PIP_CERT="${PIP_CERT:-$certificates}"
}

# Many a container image sets this variable. Each of the ten processes of an installation would then compile our modules
# anew at each start, and each worker of ./test all test modules: a tenth of a second and five seconds of CPU. What is
# compiled is kept beside the modules, in this folder.
keep_bytecode() { unset PYTHONDONTWRITEBYTECODE; }

# A fetched Python finds its own library folder, but not the shared libraries fetched with it.
use_tools() {
    [ -x "$tools/root/usr/bin/python3" ] || return 0
    for folder in "$tools/root/lib/"*-linux-gnu* "$tools/root/usr/lib/"*-linux-gnu*; do
        [ -d "$folder" ] && LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    done
    [ -z "${LD_LIBRARY_PATH:-}" ] || export LD_LIBRARY_PATH
}

# The one that the caller names, else the distribution's, before those on PATH: it is built with profile-guided
# optimization, those of pyenv mostly are not (docs/performance/notebook.md). One with pip before one without.
find_python() {
    if [ -n "${HONGBAO_PYTHON:-}" ]; then
        is_python "$HONGBAO_PYTHON" && return
        die "HONGBAO_PYTHON=$HONGBAO_PYTHON is no Python 3.11 to 3.14 with ssl, ctypes and venv; name another or unset it"
    fi
    for pip_too in find_pip :; do
        for base in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11 "$tools/root/usr/bin/python3"; do
            is_python "$base" && $pip_too && return
        done
    done
    return 1
}

is_python() {
    base=$(command -v "$1") &&
        "$base" -I -c 'import sys, ssl, ctypes, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
            2>/dev/null
}

# pip runs from its wheel: Debian has it beside ensurepip, or it was fetched.
find_pip() {
    pip=$("$base" -I -c 'import glob, importlib.util as u, sys, sysconfig
spec = u.find_spec("ensurepip")
folders = [*(f"{f}/_bundled" for f in (spec and spec.submodule_search_locations or ())),
           sysconfig.get_config_var("WHEEL_PKG_DIR"), "/usr/share/python-wheels", *sys.argv[1:]]
print(next(w for f in folders if f for w in glob.glob(f"{glob.escape(f)}/pip-*.whl")))' \
        "$tools/root/usr/share/python-wheels" 2>/dev/null)
}

make_venv() {
    home=
    if [ -x "$python" ] && [ ! -e "$venv/unfinished" ] &&
        { read -r home <"$venv/home" || :; } 2>/dev/null && [ "$home" = "$here" ]; then
        rm -f "$venv/"*.locked
    else
        rm -rf "$venv"
        mkdir "$venv"
        : >"$venv/unfinished"
        "$base" -I -m venv --without-pip "$venv" || die "cannot make $venv with $base; install its venv module"
        echo "$here" >"$venv/home"
    fi
    : >"$venv/unfinished"
}

install() {
    find_pip || die "$base has no pip; install python3-venv (Debian) and try again"
    say "installing $(grep -c '==' "$here/requirements/$1.txt") locked packages"
    with_uv "$1" || with_pip "$1" || die "cannot install requirements/$1.txt; see above, check the network, try again"
}

# uv is several times faster. pip is tried second, because it knows more network set-ups (its configuration files).
with_uv() {
    run_pip --require-hashes -r "$here/requirements/bootstrap.txt" &&
        UV_CACHE_DIR=$tools/cache UV_NO_CONFIG=1 UV_LINK_MODE=hardlink "$venv/bin/uv" pip install --quiet --no-progress \
            --python "$python" --compile-bytecode --require-hashes -r "$here/requirements/$1.txt" &&
        UV_CACHE_DIR=$tools/cache UV_NO_CONFIG=1 "$venv/bin/uv" pip install --quiet --no-progress --offline \
            --python "$python" --no-deps --no-build-isolation --editable "$here"
}

with_pip() {
    run_pip --require-hashes -r "$here/requirements/$1.txt" &&
        run_pip --no-deps --no-build-isolation --no-index --editable "$here"
}

# Debian's pip reads /etc/ssl/certs/ca-certificates.crt at its import and fails if there is none, whatever certificates
# it is to use: the path is replaced before the import.
run_pip() {
    PYTHONPATH=$pip PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore "$python" -c 'import os, runpy
from pip._vendor import certifi
certificates = os.environ.get("SSL_CERT_FILE")
if certificates and not os.path.exists(certifi.where()):
    certifi.where = lambda: certificates
runpy.run_module("pip", run_name="__main__")' install --quiet --quiet --no-cache-dir --no-input "$@"
}

say() { echo "hongbao: $*" >&2; }

die() {
    echo "error: $*" >&2
    exit 1
}
