"""The steps into the archive: exported, with the sums of the register; verified, by reading it back."""

import json

from archive.states import State
from audit.sums import DaySums
from envelope.errors import InvariantBroken, Refused
from rotation import crash, register
from rotation.archive_seam import Archive, Written
from rotation.crash import Point
from rotation.register import Entry, Operator
from rotation.sessions import Sessions
from runtime import logs

_SPOILT = ("archive_missing", "archive_corrupt", "archive_forged")
"""What verifying may find that a new export cures: the tables still stand. A difference it does not: a person looks."""

_log = logs.get("rotation")


async def export(of: Sessions, archive: Archive, entry: Entry, by: Operator) -> str:
    """Write one database's day and say so in the register; returns the manifest's digest. Repeatable.

    Raises what the archive refuses, and InvariantBroken when it does not hold what the day was closed with.
    """
    proof = await register.proof_of(of.work, entry.day, entry.xx)
    written = await archive.export(
        await of.archive(), xx=entry.xx, day=entry.day, proof=None if proof is None else json.loads(proof)
    )
    told = DaySums(written.envelopes, written.claims, written.paid_in_fen, written.claimed_fen, written.refunded_fen)
    if told != entry.sums:
        where = f"db_{entry.xx:02d} of {entry.day}"
        raise InvariantBroken("archive_holds_the_day", f"{where} was exported with {told} and closed with {entry.sums}")
    crash.reach(Point.EXPORT_WRITTEN)
    async with register.step(of.work):
        await register.advance(of.work, entry.day, entry.xx, State.EXPORTED, written.digest)
        await register.note(of.work, by, "exported", entry.day, entry.xx, {"manifest": written.digest})
    return written.digest


async def verify(of: Sessions, archive: Archive, entry: Entry, by: Operator) -> None:
    """Read one database's archive back, write it anew where it was spoilt, and say in the register that it holds.

    Of one that is `verified` already nothing is said unless it had to be written anew.
    """
    digest, anew = entry.manifest_sha256, False
    try:
        await check(of, archive, entry, digest)
    except Refused as refusal:
        if refusal.code not in _SPOILT:
            raise
        _log.warning("archive spoilt, exported anew", day=str(entry.day), xx=entry.xx, reason=refusal.detail)
        digest, anew = await export(of, archive, entry, by), True
        await check(of, archive, entry, digest)
    crash.reach(Point.VERIFY_READ)
    if entry.state is State.VERIFIED and not anew:
        return
    async with register.step(of.work):
        await register.advance(of.work, entry.day, entry.xx, State.VERIFIED)
        await register.note(of.work, by, "verified", entry.day, entry.xx, {"manifest": digest})


async def check(of: Sessions, archive: Archive, entry: Entry, digest: str | None) -> None:
    """Read an archive back and compare it; raises Refused where it does not hold, or is not the one of that digest."""
    verified: Written = await archive.verify(await of.archive(), xx=entry.xx, day=entry.day)
    if verified.digest != digest:
        raise Refused(
            "archive_differs",
            f"the manifest of db_{entry.xx:02d} of {entry.day} is not the one in the register; nothing was changed",
        )
