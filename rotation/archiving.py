"""The two steps into the archive: export, checked against the register's sums, and verify, by reading it back."""

import json

from archive.kept_in import SPOILT
from archive.states import State
from audit.sums import DaySums
from days import crash_points
from errors import InvariantBroken, Refused
from rotation import register
from rotation.archive_port import ArchivedDay, ArchivePort
from rotation.points import Point
from rotation.register import Entry, Operator
from rotation.sessions import Sessions
from runtime import logs
from sharding.slots import database_name

_log = logs.get("rotation")


async def export(connections: Sessions, archive: ArchivePort, entry: Entry, by: Operator) -> str:
    """Write one database's day and enter it into the register; returns the manifest's digest. Idempotent.

    Raises what the archive refuses, and InvariantBroken if the archive's sums are not those that the day was closed
    with.
    """
    proof = await register.proof_of(connections.work, entry.day, entry.xx)
    written = await archive.export(
        await connections.archive(), xx=entry.xx, day=entry.day, proof=None if proof is None else json.loads(proof)
    )
    _check_sums(entry, written)
    crash_points.reach(Point.EXPORT_WRITTEN)
    async with register.step(connections.work):
        await register.advance(connections.work, entry.day, entry.xx, State.EXPORTED, written.digest)
        await register.note(connections.work, by, "exported", entry.day, entry.xx, {"manifest": written.digest})
    return written.digest


def _check_sums(entry: Entry, written: ArchivedDay) -> None:
    sums = DaySums(written.envelopes, written.claims, written.paid_in_fen, written.claimed_fen, written.refunded_fen)
    if sums != entry.sums:
        where = f"{database_name(entry.xx)} of {entry.day}"
        raise InvariantBroken("archive_holds_the_day", f"{where} was exported with {sums} and closed with {entry.sums}")


async def verify(connections: Sessions, archive: ArchivePort, entry: Entry, by: Operator) -> None:
    """Read one database's archive back, export it anew if it was spoilt, and enter `verified` into the register.

    Idempotent: of a day that is `verified` already, the register changes only if it had to be exported anew.
    """
    digest, anew = entry.manifest_sha256, False
    try:
        await check(connections, archive, entry, digest)
    except Refused as refusal:
        # Not `archive_differs`, which no export would mend: an operator must look at that.
        if refusal.code not in SPOILT:
            raise
        _log.warning("archive spoilt, exported anew", day=str(entry.day), xx=entry.xx, reason=refusal.detail)
        digest, anew = await export(connections, archive, entry, by), True
        await check(connections, archive, entry, digest)
    crash_points.reach(Point.VERIFY_READ)
    if entry.state is State.VERIFIED and not anew:
        return
    async with register.step(connections.work):
        await register.advance(connections.work, entry.day, entry.xx, State.VERIFIED)
        await register.note(connections.work, by, "verified", entry.day, entry.xx, {"manifest": digest})


async def check(connections: Sessions, archive: ArchivePort, entry: Entry, digest: str | None) -> None:
    """Read an archive back; raises Refused unless it equals the tables and its manifest has this digest."""
    verified = await archive.verify(await connections.archive(), xx=entry.xx, day=entry.day)
    if verified.digest != digest:
        where = f"{database_name(entry.xx)} of {entry.day}"
        text = f"the manifest of {where} is not the one in the register; nothing was changed"
        raise Refused("archive_differs", text)
