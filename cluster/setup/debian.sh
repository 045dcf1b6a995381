#!/bin/sh
# debian.sh ROOT PACKAGE…: fetch packages, and what they need that this machine lacks, from the machine's own Debian
# archive and unpack them under ROOT. Needs no root, installs nothing: apt works on lists and caches of its own
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

# A source that is away is no reason to stop: what is needed may be in the others.
apt update || :
# The C library belongs to the running system's loader and is never taken from elsewhere.
wanted=$(apt -s --no-install-recommends install "$@" | awk '/^Inst/ && $2 !~ /^(libc6|libc-bin)(:|$)/ { print $2 }')
[ -n "$wanted" ] || { echo "apt finds nothing to fetch for: $*" >&2; exit 1; }
# shellcheck disable=SC2086
(cd "$work/debs" && apt download $wanted)
mkdir -p "$root"
for deb in "$work/debs/"*.deb; do
    dpkg -x "$deb" "$root"
done
