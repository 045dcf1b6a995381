"""Copies an archive from one place to another: a folder to an object store, or back. Its manifest stays what it was."""

from datetime import date

from archive import place, store
from archive.kept_in import SPOILT
from archive.known import Known
from archive.manifest import Manifest
from archive.place import Archive
from errors import Refused


def copy_archive(
    source: Archive, target: Archive, *, xx: int, day: date, digest: str | None = None, known: Known | None = None
) -> bool:
    """Copy one archive, checked whole before and after; returns whether it had to be. Durable on return. Blocks.

    `digest` is the one that the register names; then the target's older writings of the day that are `known` here are
    removed, also where nothing had to be copied: they have names of users who were forgotten since, and other tools
    would count the day twice. The source is only read; an archive of the same digest that is whole at the target is
    left alone. Raises Refused as `store.verified` of the source, and as `store.publish`: an archive of another
    installation at the target is not replaced.
    """
    found = store.verified(source, xx=xx, day=day, digest=digest)
    manifest = found.manifest
    # Nobody has registered what stands at the target: only what is known by its digest is ours there.
    ours = Known((known or Known()).digests | {manifest.digest})
    copied = not _is_whole(target, manifest)
    if copied:
        with store.staging(target.folder, xx=xx, day=day) as new:
            for name in manifest.files:
                store.fetch(source, found, name, new / name)
            place.check_files(new, manifest)
            store.publish(new, manifest, target, ours)
    if digest is not None:
        store.discard_others(target, ours, xx=xx, day=day, digest=digest)
    return copied


def _is_whole(target: Archive, manifest: Manifest) -> bool:
    try:
        store.verified(target, xx=manifest.xx, day=manifest.day, digest=manifest.digest)
    except Refused as refused:
        if refused.code not in SPOILT:
            raise
        return False
    return True
