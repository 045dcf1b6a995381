#!/bin/sh
# debian.sh ROOT PACKAGE…: fetch packages, and those of their dependencies that this machine lacks, from the machine's
# own Debian archive, and unpack them under ROOT. Needs no root and installs nothing: apt uses separate lists and caches
# beside ROOT, which are removed at the end. Several calls for one ROOT wait for each other, and what one has fetched the
# next ones leave out.
set -eu
root=$1
shift
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo "this machine has no apt; install by hand: $*" >&2
    exit 1
fi

mkdir -p "$root"
exec 8>"$root.lock"
flock -w 600 8 || { echo "another fetch to $root is still running after 10 minutes" >&2; exit 1; }
done=$root/.fetched
missing=
for package in "$@"; do
    [ -e "$done/$package" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

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
# shellcheck disable=SC2086
wanted=$(apt -s --no-install-recommends install $missing | awk '/^Inst/ && $2 !~ /^(libc6|libc-bin)(:|$)/ { print $2 }')
[ -n "$wanted" ] || { echo "apt finds nothing to fetch for:$missing" >&2; exit 1; }
# shellcheck disable=SC2086
(cd "$work/debs" && apt download $wanted)
for deb in "$work/debs/"*.deb; do
    dpkg -x "$deb" "$root"
done
mkdir -p "$done"
for package in $missing; do
    : >"$done/$package"
done
