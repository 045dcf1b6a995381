"""Other sessions beside a rotation: migrations, reports, changes of tables; who waits for what, and what they hear."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from days.limits import LOCK_TIMEOUT_MS
from days.retry import LockRetry
from errors import Unavailable
from rotation import detach, driver_errors, steps
from rotation.fence import fence
from rotation.lock import rotation_lock
from schema import migrate as schema_migrate
from schema.migrate import migrate_set
from tests.integration.rotation.fixtures import DAY, OldDays, old_days

__all__ = ["old_days"]

TAG = f"{DAY:%Y%m%d}"
ADDS_A_COLUMN = """
ALTER TABLE envelope ADD COLUMN of_tomorrow bigint;
DO $$ DECLARE one regclass; BEGIN
    FOR one IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'p'
        AND NOT relispartition AND relname ~ '^envelope_[0-9]{8}$'
    LOOP EXECUTE format('ALTER TABLE %s ADD COLUMN of_tomorrow bigint', one); END LOOP;
END $$;
"""
"""Of the shape of schema/set/0009_bounds.sql: days that are detached are read by the same statements."""
WITH_COLUMN = "SELECT count(*) FROM pg_attribute WHERE attname = 'of_tomorrow' AND attrelid = $1::text::regclass"


@asynccontextmanager
async def a_snapshot(old_days: OldDays, query: str) -> AsyncIterator[asyncpg.Connection]:
    """A session with a snapshot, as a report or a dump has, that has run one query."""
    session = await asyncpg.connect(old_days.set_dsn)
    try:
        async with session.transaction(isolation="repeatable_read", readonly=True):
            await session.fetch(query)
            yield session
    finally:
        await session.close()


async def leave_pending(old_days: OldDays) -> None:
    """Begin to detach DAY's headers beside a reader of them, and give up: the detach stays pending."""
    async with a_snapshot(old_days, "SELECT count(*) FROM envelope"):
        owner = await asyncpg.connect(old_days.set_access.dsn)
        await owner.execute("SET lock_timeout = '100ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await owner.execute(f"ALTER TABLE public.envelope DETACH PARTITION public.envelope_{TAG} CONCURRENTLY")
        await owner.close()
    assert await old_days.scalar("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == 1


@pytest.fixture
def next_release(old_days: OldDays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OldDays:
    """`old_days`, and the migrations of a release that adds a column to the hot tables."""
    shutil.copytree(schema_migrate._HERE / "set", tmp_path / "release" / "set")
    (tmp_path / "release" / "set" / "9999_column.sql").write_text(ADDS_A_COLUMN)
    monkeypatch.setattr(schema_migrate, "_HERE", tmp_path / "release")
    monkeypatch.setattr(schema_migrate, "LOCK_S", 0.5)
    return old_days


async def test_a_migration_completes_a_pending_detach_first(next_release: OldDays) -> None:
    """While an old transaction is in the way the migration names the day and changes nothing; then it changes all.

    Postgres would keep the column from the partition, and refuse to complete the detach of a partition without it.
    """
    await next_release.run_to("closed")
    await leave_pending(next_release)
    async with a_snapshot(next_release, "SELECT count(*) FROM operation_log"):
        with pytest.raises(Unavailable, match=f"envelope_{TAG}.*rotate run") as waits:
            await migrate_set(next_release.set_access.dsn)
    assert waits.value.code == "migration_waits"
    assert await next_release.scalar(WITH_COLUMN, "public.envelope") == 0
    assert await migrate_set(next_release.set_access.dsn) == ["9999_column"]
    assert await next_release.scalar(WITH_COLUMN, f"public.envelope_{TAG}") == 1
    assert await next_release.violations() == []
    assert await next_release.run_to("detached") is None
    assert await next_release.states() == {0: "detached", 1: "detached"}


async def test_a_migration_waits_while_a_rotation_works(next_release: OldDays) -> None:
    """A detach that begins within the migration would be as lost as one that was pending before."""
    async with rotation_lock(next_release.set_access.dsn):
        with pytest.raises(Unavailable, match="rotation"):
            await migrate_set(next_release.set_access.dsn)
    assert await migrate_set(next_release.set_access.dsn) == ["9999_column"]
    async with rotation_lock(next_release.set_access.dsn):
        assert await migrate_set(next_release.set_access.dsn) == [], "there is nothing to change: nothing to wait for"


async def changes_claim(old_days: OldDays) -> tuple[asyncpg.Connection, Any]:
    """Somebody changes or rebuilds the hot table of claims, in a transaction that goes on."""
    session = await asyncpg.connect(old_days.set_dsn)
    transaction = session.transaction()
    await transaction.start()
    await session.execute("LOCK TABLE claim IN ACCESS EXCLUSIVE MODE")
    return session, transaction


FENCES = (
    "SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid WHERE tgname = 'day_fence' AND relkind = 'p'"
)


@pytest.mark.parametrize("when", ["before", "behind the fence"])
@pytest.mark.parametrize("stays", [False, True], ids=["for a moment", "for long"])
async def test_a_table_that_is_changed_while_a_day_is_proven(
    old_days: OldDays, monkeypatch: pytest.MonkeyPatch, when: str, stays: bool
) -> None:
    """The proof waits for it; after its patience it names the process, and the next run goes on."""
    held: list[tuple[asyncpg.Connection, Any]] = []
    ended: list[asyncio.Task[None]] = []

    async def end() -> None:
        session, transaction = held.pop()
        await transaction.rollback()
        await session.close()

    async def hold() -> None:
        held.append(await changes_claim(old_days))
        if not stays:
            # Longer than one try waits, which is what failed.
            asyncio.get_running_loop().call_later(
                3 * LOCK_TIMEOUT_MS / 1000, lambda: ended.append(asyncio.ensure_future(end()))
            )

    async def fenced(*args: Any) -> None:
        await fence(*args)
        await hold()

    with monkeypatch.context() as patch:
        if stays:
            patch.setattr(steps, "LOCK_RETRY", LockRetry("rotation_waits", patience_s=0.5))
        if when == "before":
            await hold()
        else:
            patch.setattr(steps, "fence", fenced)
        if not stays:
            assert await old_days.run() == {0: "verified", 1: "verified"}
            await asyncio.gather(*ended)
            return
        with pytest.raises(Unavailable, match="held by process") as waits:
            await old_days.run()
    assert waits.value.code == "rotation_waits"
    assert f"process {held[0][0].get_server_pid()} " in waits.value.detail
    await end()
    assert await old_days.scalar(FENCES) == (0 if when == "before" else 3)
    assert await old_days.run() == {0: "verified", 1: "verified"}


def test_a_lock_is_no_fault_of_ours() -> None:
    """Whatever statement of a rotation meets it: the same call continues later."""
    with pytest.raises(Unavailable) as waits, driver_errors.translated("set-1"):
        raise asyncpg.LockNotAvailableError("canceling statement due to lock timeout")
    assert waits.value.code == "rotation_waits"


async def test_a_pending_detach_names_the_session_with_an_old_snapshot(
    old_days: OldDays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no lock on any of the day's tables; Postgres waits for it all the same. It ends, and the day leaves."""
    await old_days.run_to("closed")
    await leave_pending(old_days)
    async with a_snapshot(old_days, "SELECT count(*) FROM operation_log") as report:
        with monkeypatch.context() as patch:
            patch.setattr(detach, "LOCK_RETRY", LockRetry("rotation_waits", patience_s=0.5))
            with pytest.raises(Unavailable) as waits:
                await old_days.run()
        assert waits.value.code == "rotation_waits"
        assert f"process {report.get_server_pid()} (postgres)" in waits.value.detail
        assert f"detach of public.envelope_{TAG} is not complete" in waits.value.detail
    assert await old_days.run() == {0: "verified", 1: "verified"}
