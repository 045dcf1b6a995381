#!/bin/sh
# debian.sh ROOT PACKAGE…: fetch packages, and those of their dependencies that this machine lacks, from the machine's
# own Debian archive, and unpack them under ROOT. Needs no root and installs nothing: apt uses separate lists and caches
# beside ROOT, which are removed at the end.
set -eu
root=$1
shift
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "this machine has no apt; install by hand: $*" >&2
    exit 1
fi

work=$root.fetch
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/debs"

apt() {
    apt-get -qq \
        -o Dir::State="$work/state" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$work/cache" \
        -o Dir::Log="$work" -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o Acquire::Retries=3 -o Acquire::http::Timeout=30 \
        ${SSL_CERT_FILE:+-o Acquire::https::CAInfo="$SSL_CERT_FILE"} "$@"
}

# One source may be unreachable: the packages may be in the others.
apt update || :
# The C library must be that of the running system's loader.
wanted=$(apt -s --no-install-recommends install "$@" | awk '/^Inst/ && $2 !~ /^(libc6|libc-bin)(:|$)/ { print $2 }')
[ -n "$wanted" ] || { echo "apt finds nothing to fetch for: $*" >&2; exit 1; }
# shellcheck disable=SC2086
(cd "$work/debs" && apt download $wanted)
mkdir -p "$root"
for deb in "$work/debs/"*.deb; do
    dpkg -x "$deb" "$root"
done
