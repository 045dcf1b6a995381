# ruff: noqa: E501 - one case a line reads best
"""The audit over cold days: silent before, during and after rotation; whatever is lost or changed it finds and names.

All audits but those of a test's own choice know what those before them have proven.
"""

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import duckdb
import msgspec
import pytest

from archive import manifest, place
from audit.report import Report
from audit.snapshot import set_snapshot
from sharding.ids import slot_of
from sharding.slots import database_name
from tests.integration.archive.fixtures import KEY, detach, drop, move_on
from tests.integration.archive.past import Past, past
from tests.integration.setnode.fixtures import XXS

pytestmark = pytest.mark.long

__all__ = ["past"]


async def clean(past: Past) -> Report:
    """Audit twice, with what is known and without; returns the second report."""
    known, whole = await past.audit(), await past.town.audit()
    assert known.violations == whole.violations == []
    assert known.sums == whole.sums
    return whole


def found(report: Report) -> set[tuple[str, str]]:
    return {(one.check, one.subject) for one in report.violations}


async def test_it_holds_in_every_state(past: Past) -> None:
    """Hot, detached and not yet said so, detached, exported and verified, half dropped, dropped: the same sums."""
    sums = (await clean(past)).sums
    assert sums.claims > 150
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        for xx in XXS:
            await move_on(connection, past.day, xx, "closed")
        assert (await clean(past)).sums == sums
        for xx in XXS:
            await move_on(connection, past.day, xx, "detached")
        assert (await clean(past)).sums == sums
        await past.archive()
        assert (await clean(past)).sums == sums
        for xx in XXS:
            await drop(connection, past.day, xx)
            if xx in (0, 2):
                assert (await clean(past)).sums == sums
        assert (await clean(past)).sums == sums
        await connection.execute(
            f"DROP TABLE envelope_{past.day:%Y%m%d}, claim_{past.day:%Y%m%d}, guest_{past.day:%Y%m%d}"
        )
        assert (await clean(past)).sums == sums


async def test_it_holds_while_days_are_detached_and_dropped(past: Past) -> None:
    """Audit after audit beside the rotation: none misses a day between two states, and the rotation gets on."""
    sums = (await clean(past)).sums
    reports: list[Report] = []
    done = False

    async def audit_on() -> None:
        while not done:
            reports.append(await past.audit())

    auditing = asyncio.ensure_future(audit_on())
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        await past.archive()
        for xx in XXS:
            await drop(connection, past.day, xx)
            await asyncio.sleep(0)
    done = True
    await auditing
    assert len(reports) > 3
    assert [report.violations for report in reports] == [[]] * len(reports)
    assert [report.sums for report in reports] == [sums] * len(reports)


def where(past: Past, envelope: str = "half") -> tuple[Path, str]:
    """The archive that holds an envelope, and its subject in a report."""
    xx = slot_of(past.envelopes[envelope]) // 10
    return place.folder_of(past.folder, xx=xx, day=past.day), f"{database_name(xx)} {past.day}"


def change(folder: Path, how: str) -> dict[str, Any]:
    """Change a row of the claims; returns what an honest manifest would say of the file."""
    path = folder / "claim.parquet"
    duckdb.execute(f"COPY (SELECT * {how} FROM '{path}') TO '{path}.new' (FORMAT parquet)")
    path.with_name("claim.parquet.new").replace(path)
    return {"sha256": place.sha256_of(path), "size": path.stat().st_size}


def resign(past: Past, folder: Path, key: bytes, **file: Any) -> str:
    """Sign the changed file with `key`; returns the digest."""
    xx = int(folder.name[3:])
    old = manifest.read(folder, KEY, xx=xx, day=past.day)
    files = {**old.files, "claim.parquet": msgspec.structs.replace(old.files["claim.parquet"], **file)}
    new = msgspec.structs.replace(old, files=files)
    (folder / "manifest.json").write_bytes(manifest.sign(new, key))
    return new.digest


SPOILS = {
    "it is gone": lambda past, folder: folder.rename(folder.with_name("gone")),
    "a file is gone": lambda past, folder: (folder / "envelope.parquet").unlink(),
    "a row changed": lambda past, folder: change(folder, "REPLACE (amount_fen + (seq = 1)::INT AS amount_fen)"),
    "a row changed, signed with another key": lambda past, folder: resign(
        past, folder, b"not the key, but long", **change(folder, "REPLACE (amount_fen + (seq = 1)::INT AS amount_fen)")
    ),
    "a row changed, signed with the right key, not in the register": lambda past, folder: resign(
        past, folder, KEY, **change(folder, "REPLACE (amount_fen + (seq = 1)::INT AS amount_fen)")
    ),
}  # fmt: skip


async def test_a_hole_in_the_archive_is_a_violation(past: Past) -> None:
    """The register says dropped and the archive is not there, or not the one it was: named, with the fen in question."""
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        await past.archive()
        await past.drop()
        folder, subject = where(past)
        xx = int(folder.name[3:])
        paid_in = await connection.fetchval("SELECT paid_in_fen FROM day_register WHERE xx = $1", xx)
        kept = folder.with_name("kept")
        for what, spoil in SPOILS.items():
            shutil.copytree(folder, kept)
            spoil(past, folder)
            report = await past.audit()
            assert (what, found(report)) == (what, {("cold_day_is_there", subject)})
            assert report.unreconciled_fen == paid_in
            shutil.rmtree(folder, ignore_errors=True)
            kept.rename(folder)
        await clean(past)


async def test_who_has_key_and_register_still_cannot_change_a_row(past: Past) -> None:
    """A row changed, signed with the right key and bound in the register: the replay finds it all the same."""
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        await past.archive()
        await past.drop()
        folder, _ = where(past)
        kept = {path.name: path.read_bytes() for path in folder.iterdir()}
        before = await connection.fetchval(
            "SELECT manifest_sha256 FROM day_register WHERE xx = $1", int(folder.name[3:])
        )
        half = str(past.envelopes["half"])
        for how, checks in (
            ("REPLACE (amount_fen + (seq = 1)::INT AS amount_fen)", {("amount_follows_seed", half)}),
            (f"REPLACE (CASE WHEN seq = 1 AND envelope_id = {half} THEN 'thief' ELSE user_id END AS user_id)", {("credit_matches_claim", half)}),
        ):  # fmt: skip
            digest = resign(past, folder, KEY, **change(folder, how))
            await move_on(connection, past.day, int(folder.name[3:]), "dropped", digest)
            report = await past.audit()
            assert checks <= found(report)
            for name, content in kept.items():
                (folder / name).write_bytes(content)
            await move_on(connection, past.day, int(folder.name[3:]), "dropped", before)
        await clean(past)


async def test_a_proven_day_is_not_read_again(past: Past) -> None:
    """A day is read once while hot, once detached (the register's sums are new), once dropped (in another place).

    Then its digests prove it. A credit that was changed since is found all the same.
    """
    held = {
        slot_of(envelope_id) // 10 for envelope_id in past.envelopes.values()
    }  # of others there is nothing to prove
    async with past.owner as connection:
        assert (await past.audit()).parts_by_digest == 0
        await detach(connection, past.day, XXS)
        assert [(await past.audit()).parts_by_digest for _ in range(2)] == [0, 1]  # the register speaks of it now
        await past.archive()
        assert [(await past.audit()).parts_by_digest for _ in range(2)] == [1, 1]
        await past.drop()
        assert [(await past.audit()).parts_by_digest for _ in range(2)] == [0, len(held)]
    wallet = await asyncpg.connect(past.town.wallet_dsn)
    edit = "UPDATE transfer SET amount_fen = amount_fen + $2 WHERE order_no = $1"
    order = f"{past.envelopes['half']}.1"
    await wallet.execute("SET session_replication_role = replica")
    await wallet.execute(edit, order, 1)
    assert ("credit_matches_claim", str(past.envelopes["half"])) in found(await past.audit())
    await wallet.execute(edit, order, -1)
    await wallet.close()
    await clean(past)


async def test_rows_lost_from_a_detached_day_are_found(past: Past) -> None:
    """An envelope that vanishes from a cold table leaves its money without an owner, and the register's sums wrong."""
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        _, subject = where(past)
        half = past.envelopes["half"]
        await connection.execute(
            f"CREATE TABLE kept_e AS SELECT * FROM envelope_{past.day:%Y%m%d} WHERE envelope_id = {half}"
        )
        await connection.execute(
            f"CREATE TABLE kept_c AS SELECT * FROM claim_{past.day:%Y%m%d} WHERE envelope_id = {half}"
        )
        await connection.execute(f"DELETE FROM envelope_{past.day:%Y%m%d} WHERE envelope_id = {half}")
        await connection.execute(f"DELETE FROM claim_{past.day:%Y%m%d} WHERE envelope_id = {half}")
        report = await past.audit()
        assert {("register_matches_rows", subject), ("credit_has_claim", str(half))} <= found(report)
        await connection.execute(f"INSERT INTO envelope_{past.day:%Y%m%d} SELECT * FROM kept_e")
        await connection.execute(f"INSERT INTO claim_{past.day:%Y%m%d} SELECT * FROM kept_c")
        await connection.execute("DROP TABLE kept_e, kept_c")


async def test_tables_that_vanished_without_a_word_are_found(past: Past) -> None:
    """The register says detached, and somebody dropped the tables by hand: a hole, named for every database."""
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
        await past.archive()
        tag = f"{past.day:%Y%m%d}"
        await connection.execute(f"ALTER TABLE claim_{tag} RENAME TO lost_{tag}")
        report = await past.audit()
        assert found(report) == {("cold_day_is_there", f"{database_name(xx)} {past.day}") for xx in XXS}
        await connection.execute(f"ALTER TABLE lost_{tag} RENAME TO claim_{tag}")


async def test_an_audit_without_an_archive_says_what_it_could_not_see(past: Past) -> None:
    """No archive given, a day dropped: every database of it is a hole."""
    async with past.owner as connection:
        await detach(connection, past.day, XXS)
    await past.archive()
    await past.drop()
    settings = past.town.nodes[0].settings
    past.town.nodes[0].settings = msgspec.structs.replace(settings, archive="")
    report = await past.audit()
    past.town.nodes[0].settings = settings
    assert {check for check, _ in found(report)} == {"cold_day_is_there"}
    assert report.count == len(XXS)


async def test_the_lock_of_the_audit_keeps_a_drop_waiting_not_the_opens(past: Past) -> None:
    """While an audit's snapshot stands, hot rows are written as ever, and a cold day is not dropped under it."""
    async with past.owner as connection, AsyncExitStack() as stack:
        await detach(connection, past.day, XXS)
        await set_snapshot(stack, past.town.set_dsn)
        envelope_id = await past.town.create(100, 1)
        assert (await past.town.open(envelope_id, "somebody"))["result"] == "opened"
        await connection.execute("SET lock_timeout = '100ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await connection.execute(f"DROP TABLE cold_00_{past.day:%Y%m%d}.claim_0_{past.day:%d}")
