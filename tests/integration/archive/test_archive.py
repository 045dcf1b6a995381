# ruff: noqa: E501 - one case a line reads best
"""An archive: what goes in comes out, whatever happens on the way; and what was changed is refused by name."""

import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import duckdb
import msgspec
import pytest

from archive import manifest, pipes, place
from archive.details import Details
from archive.export import export_database
from archive.place import Archive
from archive.tables import TABLES
from archive.verify import verify_database
from archive.view import query
from errors import HongbaoError, Refused
from machine.postgres.server import Postgres
from schema import roles
from sharding.ids import make_id
from tests.conftest import Databases
from tests.integration.archive import fixtures as cold_fixtures
from tests.integration.archive.fixtures import AT, DAY, KEY, build_past, closed_envelope, detach, fill, owner, put
from tests.integration.hanging_proxy import hanging_proxy

NASTY = [
    "'",
    '"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\\",
    "\\.",
    "\\N",
    "NULL",
    " ",
    "\t",
    "\x01",
    "\u2028",
    "\ufeff",
    "恭喜",
    "🧧",
    "\u202e",
]


async def past(databases: Databases) -> str:
    return await databases.clone("past", build_past)


async def export(connection: Any, folder: Path, xx: int = 0) -> manifest.Manifest:
    return await export_database(connection, folder, KEY, xx=xx, day=DAY, proof={"escrows": [0, 0], "by": "test"})


async def verify(connection: Any, folder: Path, xx: int = 0, key: bytes = KEY) -> Any:
    return await verify_database(connection, folder, key, xx=xx, day=DAY)


async def odd_rows(dsn: str, seed: int = 7) -> None:
    """Envelopes as odd as the schema allows, in databases 0 and 1."""
    luck = random.Random(seed)
    text = lambda most: "".join(luck.choice(NASTY) for _ in range(luck.randint(0, most)))[:most]  # noqa: E731
    headers, claims, guests = [], [], []
    for number in range(400):
        envelope_id = make_id(DAY, number * 7919, luck.randrange(20))
        mac = luck.choice([None, hashlib.sha256(b"x").hexdigest()])
        header, rows = closed_envelope(
            envelope_id, 5, luck.choice([0, 0, 2, 5]), closing=luck.choice(["expired", "canceled", "undone"]),
            greeting=text(64), sender=text(39) + "s", password_mac=mac, named=luck.random() < 0.3,
            opens_at=AT + timedelta(microseconds=luck.randrange(10**6)),
        )  # fmt: skip
        headers.append(header)
        claims += rows
        guests += [
            (envelope_id, envelope_id % 1000, luck.randrange(6), bool(one), f"{one}{text(38)}") for one in range(2)
        ]
    await put(dsn, headers, claims, guests)


async def test_what_goes_in_comes_out(databases: Databases, tmp_path: Path) -> None:
    """Unicode, quotes, line ends, NULLs, guests, undone and empty envelopes: equal to the row, and to the manifest."""
    dsn = await past(databases)
    await odd_rows(dsn)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        for xx in range(2):
            made = await export(connection, tmp_path, xx)
            assert (await verify(connection, tmp_path, xx)).manifest == made
            assert manifest.read(place.folder_of(tmp_path, xx=xx, day=DAY), KEY, xx=xx, day=DAY) == made
            row = await connection.fetchrow(
                """SELECT r.*, (SELECT count(*) FROM guest_20261103 WHERE slot / 10 = $1) AS guests
                FROM day_register r WHERE xx = $1""",
                xx,
            )
            for name in ("envelopes", "claims", "guests", "paid_in_fen", "claimed_fen", "refunded_fen"):
                assert getattr(made, name) == row[name] > 0, name
            for table in TABLES:
                columns = ", ".join(table.columns)
                stored = await connection.fetch(
                    f"SELECT {columns} FROM {table.kind}_20261103 WHERE slot / 10 = $1 "
                    f'ORDER BY {", ".join(table.order)} COLLATE "C"' if table.order[-1] == "user_id" else
                    f"SELECT {columns} FROM {table.kind}_20261103 WHERE slot / 10 = $1 ORDER BY {', '.join(table.order)}",
                    xx,
                )  # fmt: skip
                path = place.folder_of(tmp_path, xx=xx, day=DAY) / table.file
                assert as_text(read_parquet(path, table.columns)) == as_text([tuple(one) for one in stored])


def read_parquet(path: Path, columns: Any) -> list[tuple[Any, ...]]:
    """Read by DuckDB alone, instants as naive UTC."""
    listed = ", ".join(f"{name}::TIMESTAMP" if name.endswith("_at") else name for name in columns)
    return duckdb.execute(f"SELECT {listed} FROM read_parquet(?)", [str(path)]).fetchall()


def as_text(rows: list[tuple[Any, ...]]) -> list[str]:
    return [repr([one.replace(tzinfo=None) if hasattr(one, "tzinfo") else one for one in row]) for row in rows]


@pytest.mark.parametrize("named", ["slot=5", "kind=archive", "a[1]*?", "红包 'x\" {a,b} 100%"])
async def test_folders_above_it_are_only_its_address(databases: Databases, tmp_path: Path, named: str) -> None:
    """DuckDB takes name=value for a column, and stars for a pattern: written, verified and read as under any name."""
    folder = tmp_path / named / "archive"
    folder.parent.mkdir()
    dsn = await past(databases)
    await fill(dsn, 30)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        made = await export(connection, folder)
        await verify(connection, folder)
        stored = await connection.fetch(
            "SELECT seq, kind, user_id FROM claim_20261103 WHERE envelope_id = $1 ORDER BY seq", made.first_id
        )
    details = Details(folder, KEY)
    found = details.read(made.first_id or 0, made.digest)
    details.close()
    assert found is not None
    assert [*zip(found["seqs"], found["kinds"], found["users"], strict=True)] == [tuple(row) for row in stored]
    seen = query(Archive(folder, KEY), "SELECT count(*), count(DISTINCT slot), max(day) FROM claim", limit=1)
    assert seen.left_out == []
    assert (seen.rows[0][0], seen.rows[0][1] > 1) == (made.claims, True)


async def test_a_database_without_an_envelope_has_an_archive_too(databases: Databases, tmp_path: Path) -> None:
    """Nothing is archived as nothing: signed, read back, equal."""
    dsn = await past(databases)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        made = await export(connection, tmp_path)
        assert (made.envelopes, made.claims, made.first_id, made.last_id) == (0, 0, None, None)
        assert (await verify(connection, tmp_path)).rows == 0


async def test_the_digest_of_rows_is_what_its_formula_says(databases: Databases, tmp_path: Path) -> None:
    """SHA-256 over lines of CSV, computed here by hand: the formula depends on neither Postgres nor DuckDB."""
    dsn = await past(databases)
    header, claims = closed_envelope(make_id(DAY, 5, 3), 2, 1, greeting='a "b"\n,恭')
    await put(dsn, [header], claims, [(header[0], 3, 2, True, "bob")])
    async with owner(databases, dsn) as connection:
        made = await export(connection, tmp_path)
    lines = [
        f'{one[0]},{one[1]},{one[2]:%Y-%m-%dT%H:%M:%S.%f}Z,{one[3]},{one[4]},{one[5]},"{one[6]}","{one[7]}"\n'
        for one in claims
    ]
    assert made.files["claim.parquet"].rows_sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()
    guest = f'{header[0]},3,2,true,"bob"\n'
    assert made.files["guest.parquet"].rows_sha256 == hashlib.sha256(guest.encode()).hexdigest()


async def test_a_repeated_export_is_the_same(databases: Databases, tmp_path: Path) -> None:
    """Twice the same rows give the same digest; two at once are refused; leftovers of a killed one are gone."""
    dsn = await past(databases)
    await fill(dsn, 200)
    async with owner(databases, dsn) as one, owner(databases, dsn) as two:
        first = await export(one, tmp_path)
        leftover = tmp_path / DAY.isoformat() / ".db_00.new"
        leftover.mkdir()
        (leftover / "claim.parquet").write_bytes(b"half")
        answers = await asyncio.gather(export(one, tmp_path), export(two, tmp_path), return_exceptions=True)
        assert [one.code for one in answers if isinstance(one, Refused)] == ["archive_busy"]
        assert [made.digest for made in answers if isinstance(made, manifest.Manifest)] == [first.digest]
        assert sorted(path.name for path in (tmp_path / DAY.isoformat()).iterdir()) == ["db_00"]
        assert place.archived(tmp_path) == [(DAY, 0)]


async def test_what_the_register_names_is_left_alone(databases: Databases, tmp_path: Path) -> None:
    """An archive bound by the register is returned, not written again, also when the proof differs by now."""
    dsn = await past(databases)
    await fill(dsn, 50)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        made = await export(connection, tmp_path)
        await cold_fixtures.move_on(connection, DAY, 0, "exported", made.digest)
        before = (tmp_path / DAY.isoformat() / "db_00" / "claim.parquet").stat().st_mtime_ns
        assert await export_database(connection, tmp_path, KEY, xx=0, day=DAY, proof=None) == made
        assert (tmp_path / DAY.isoformat() / "db_00" / "claim.parquet").stat().st_mtime_ns == before


async def test_another_archive_than_the_register_names_is_forged(databases: Databases, tmp_path: Path) -> None:
    """True to the tables and signed, but not the one that was bound: verified, it would be unreadable once dropped."""
    dsn = await past(databases)
    await fill(dsn, 50)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        made = await export(connection, tmp_path)
        await cold_fixtures.move_on(connection, DAY, 0, "exported", made.digest)
        await verify(connection, tmp_path)
        where = place.folder_of(tmp_path, xx=0, day=DAY)
        resign(where, KEY, proof={"escrows": "others"})
        with pytest.raises(Refused, match="archive_forged"):
            await verify(connection, tmp_path)
        again = await export(connection, tmp_path)
        assert again.digest == made.digest, "exported anew, with the same rows and proof it is the same"
        await verify(connection, tmp_path)


async def test_a_kill_between_the_two_renames_loses_no_archive(databases: Databases, tmp_path: Path) -> None:
    """The older export was put aside and the newer one not yet in its place: the older one comes back."""
    dsn = await past(databases)
    await fill(dsn, 50)
    async with owner(databases, dsn) as connection:
        made = await export(connection, tmp_path)
        where = place.folder_of(tmp_path, xx=0, day=DAY)
        where.rename(where.with_name(".db_00.old"))
        assert place.archived(tmp_path) == []
        with place.staging(tmp_path, xx=0, day=DAY):
            assert place.archived(tmp_path) == [(DAY, 0)]
        assert (await verify(connection, tmp_path)).manifest == made


@pytest.mark.parametrize(("xx", "day"), [(2, DAY), (0, DAY + timedelta(days=1)), (0, date(2026, 10, 3))])
async def test_a_day_that_is_not_here_is_refused(databases: Databases, tmp_path: Path, xx: int, day: date) -> None:
    """An unknown database, or a date without tables: refused, and no folder is made of it."""
    dsn = await past(databases)
    async with owner(databases, dsn) as connection:
        with pytest.raises(Refused, match="day_not_here"):
            await export_database(connection, tmp_path, KEY, xx=xx, day=day, proof=None)
    assert list(tmp_path.iterdir()) == []


async def test_other_days_are_written_meanwhile(databases: Databases, tmp_path: Path) -> None:
    """While a day is exported and read back, headers of another day go in without waiting for a lock."""
    dsn = await past(databases)
    await cold_fixtures.DayTables(databases.dsn_as(dsn, roles.OWNER), range(2)).ensure(
        DAY + timedelta(days=1), ahead_days=0
    )
    await fill(dsn, 3_000)
    other = await asyncpg.connect(dsn, server_settings={"lock_timeout": "200ms"})
    written = 0

    async def write_on() -> None:
        nonlocal written
        while True:
            header, _ = closed_envelope(make_id(DAY + timedelta(days=1), written, 3), 1, 1)
            await other.copy_records_to_table("envelope", records=[header], columns=cold_fixtures.ENVELOPE_COLUMNS)
            written += 1

    async with owner(databases, dsn) as connection:
        await detach(connection)
        writing = asyncio.ensure_future(write_on())
        await export(connection, tmp_path)
        await verify(connection, tmp_path)
        assert not writing.done(), writing.exception()
        writing.cancel()
        await asyncio.wait({writing})
    other.terminate()
    assert written > 10


CHILD = """
import asyncio, os, resource, signal, sys
from pathlib import Path
import asyncpg
from archive.export import export_database
from errors import HongbaoError
from tests.integration.archive.fixtures import DAY, KEY

how, dsn, folder = sys.argv[1:]
passed = 0

def progress(kind, size):
    global passed
    passed += size
    if how == "kill" and kind == "claim" and passed > 400_000:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    if how == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    connection = await asyncpg.connect(dsn)
    try:
        await export_database(connection, Path(folder), KEY, xx=0, day=DAY, proof=None, progress=progress)
    except HongbaoError as error:
        assert await connection.fetchval("SELECT 1") == 1
        print(error.code, error.detail)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["kill", "full"])
async def test_a_kill_or_a_full_disk_leaves_nothing_that_counts(databases: Databases, tmp_path: Path, how: str) -> None:
    """Killed amid the claims, or with no room for them: no archive is there, and the next run makes a whole one."""
    dsn = await past(databases)
    await fill(dsn, 2_000)
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", CHILD, how, databases.dsn_as(dsn, roles.OWNER), str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if how == "kill":
        assert ran.returncode == -9, ran.stderr
        assert (tmp_path / DAY.isoformat() / ".db_00.new").exists()
    else:
        assert ran.stdout.startswith("archive_not_written "), ran.stderr
        assert list((tmp_path / DAY.isoformat()).iterdir()) == []
    assert place.archived(tmp_path) == []
    async with owner(databases, dsn) as connection:
        # A killed process' session ends once its server has noticed; until then the archive is busy.
        async with asyncio.timeout(20):
            while await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"):
                await asyncio.sleep(0.02)
        await export(connection, tmp_path)
        await verify(connection, tmp_path)
    assert [path.name for path in (tmp_path / DAY.isoformat()).iterdir()] == ["db_00"]


async def nothing_left(connection: Any) -> None:
    """No scratch schema, no lock."""
    assert not await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'check_%'")
    assert not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")


def resign(where: Path, key: bytes, **changes: Any) -> None:
    old = manifest.read(where, KEY, xx=0, day=DAY)
    (where / "manifest.json").write_bytes(manifest.sign(msgspec.structs.replace(old, **changes), key))


def flip(path: Path, at: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 0x01
    path.write_bytes(content)


def rewrite(where: Path, change: str) -> None:
    """Change rows of claim.parquet and say in the manifest, signed with the right key, that this is the file."""
    path = where / "claim.parquet"
    aside = path.with_suffix(".new")
    duckdb.execute(f"COPY (SELECT * REPLACE ({change}) FROM '{path}') TO '{aside}' (FORMAT parquet)")
    aside.replace(path)
    old = manifest.read(where, KEY, xx=0, day=DAY).files
    file = msgspec.structs.replace(old["claim.parquet"], sha256=place.sha256_of(path))
    resign(where, KEY, files={**old, "claim.parquet": file})


def edit(where: Path) -> None:
    path = where / "manifest.json"
    path.write_text(path.read_text().replace('"xx": 0', '"xx":  0'))


SPOILS: dict[str, tuple[str, Any]] = {
    **{
        f"a byte of {name} at {at}": ("archive_corrupt", lambda where, name=name, at=at: flip(where / name, at))
        for name in ("envelope.parquet", "claim.parquet", "guest.parquet")
        for at in (0, 0.5, 1)
    },
    **{
        f"no {name}": ("archive_missing", lambda where, name=name: (where / name).unlink())
        for name in ("envelope.parquet", "claim.parquet", "guest.parquet", "manifest.json")
    },
    "a manifest edited by hand": ("archive_forged", edit),
    "a manifest signed with another key": ("archive_forged", lambda where: resign(where, b"x" * 16)),
    "a sum changed and signed with another key": ("archive_forged", lambda where: resign(where, b"x" * 16, paid_in_fen=1)),
    "a manifest of another database": ("archive_forged", lambda where: resign(where, KEY, xx=1)),
    "a manifest of another date": ("archive_forged", lambda where: resign(where, KEY, day=date(2026, 12, 3))),
    "half a manifest": ("archive_corrupt", lambda where: (where / "manifest.json").write_text("{")),
    "a manifest that is a list": ("archive_corrupt", lambda where: (where / "manifest.json").write_text("[]")),
    "a signature in other letters": ("archive_corrupt", lambda where: (where / "manifest.json").write_text(
        json.dumps({"manifest": {}, "hmac_sha256": "红包"}, ensure_ascii=False), encoding="utf-8")),
    # From Python 3.14 on even this can be parsed, and its signature is wrong.
    "a manifest nested as deep as an attack": ("archive_corrupt or archive_forged", lambda where: (where / "manifest.json").write_text(
        '{"manifest": ' + "[" * 100_000 + "]" * 100_000 + ', "hmac_sha256": "00"}')),
    "an unsigned manifest": ("archive_corrupt", lambda where: (where / "manifest.json").write_text(json.dumps({"manifest": {}}))),
    "an amount changed, all hashes of files right": ("archive_corrupt", lambda where: rewrite(where, "amount_fen + 1 AS amount_fen")),
    "a column lost, all hashes of files right": ("archive_corrupt", lambda where: rewrite(where, "NULL::VARCHAR AS user_id")),
}  # fmt: skip


async def test_who_is_cancelled_leaves_also_where_postgres_hangs(
    databases: Databases, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a COPY that does not come costs the connection, not the caller's evening."""
    monkeypatch.setattr(pipes, "LEAVE_S", 0.2)
    dsn = await past(databases)
    await odd_rows(dsn)
    begun, real = asyncio.Event(), pipes.to_parquet

    async def hung(*args: Any) -> str:
        proxy.silence(answers_only=True)
        begun.set()
        return await real(*args)

    async with owner(databases, dsn) as connection:
        await detach(connection)
    async with hanging_proxy(postgres.dsn()) as proxy:
        connection = await asyncpg.connect(proxy.through(databases.dsn_as(dsn, roles.OWNER)))
        monkeypatch.setattr(pipes, "to_parquet", hung)
        exporting = asyncio.ensure_future(export(connection, tmp_path))
        await begun.wait()
        await asyncio.sleep(0.1)  # the COPY must be under way
        exporting.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await exporting
        assert connection.is_closed()


@pytest.mark.parametrize("at", ["pipes._push", "place.publish"])
async def test_who_is_cancelled_takes_nothing_from_under_a_thread(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The export ends when the thread has: its end of the pipe is open until then, and its folder there."""
    dsn = await past(databases)
    await odd_rows(dsn)
    begun, go, seen = threading.Event(), threading.Event(), []
    room, name = {"pipes": pipes, "place": place}[at.split(".", maxsplit=1)[0]], at.split(".")[1]
    real = getattr(room, name)

    def slow(*args: Any, **kwargs: Any) -> Any:
        begun.set()
        assert go.wait(10)
        try:
            return real(*args, **kwargs)
        except BaseException as error:
            seen.append(error)
            raise

    monkeypatch.setattr(room, name, slow)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        exporting = asyncio.ensure_future(export(connection, tmp_path))
        assert await asyncio.to_thread(begun.wait, 10)
        exporting.cancel()
        await asyncio.wait({exporting}, timeout=0.05)
        assert not exporting.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await exporting
    assert seen == []


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
async def test_an_archive_belongs_to_whom_its_folder_belongs(databases: Databases, tmp_path: Path, mode: int) -> None:
    """Whoever exports, root above all: who could read the folder before can read what is in it now."""
    folder = tmp_path / "archive"
    folder.mkdir()
    folder.chmod(mode)
    if os.geteuid() == 0:
        os.chown(folder, 65_534, 65_534)
    dsn = await past(databases)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        await export(connection, folder)
    for path in folder.rglob("*"):
        told = path.stat()
        assert (told.st_uid, told.st_gid) == (folder.stat().st_uid, folder.stat().st_gid), path
        assert told.st_mode & 0o777 == (mode if path.is_dir() else mode & 0o666), path


async def test_whatever_is_spoilt_is_refused_by_name(databases: Databases, tmp_path: Path) -> None:
    """A byte, a file, a manifest, a key: each has its code; nothing is changed and no scratch stays."""
    dsn = await past(databases)
    await odd_rows(dsn)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        await export(connection, tmp_path)
        where = place.folder_of(tmp_path, xx=0, day=DAY)
        kept = {path.name: path.read_bytes() for path in where.iterdir()}
        for what, (code, spoil) in SPOILS.items():
            spoil(where)
            with pytest.raises(HongbaoError) as caught:
                await verify(connection, tmp_path)
            assert (what, caught.value.code) in {(what, one) for one in code.split(" or ")}
            await nothing_left(connection)
            for name, content in kept.items():
                (where / name).write_bytes(content)
        with pytest.raises(Refused, match="archive_forged"):
            await verify(connection, tmp_path, key=b"another key, long enough")
        with pytest.raises(Refused, match="archive_key_weak"):
            await verify(connection, tmp_path, key=b"")
        await verify(connection, tmp_path)


CHANGES = {
    "an amount": "UPDATE claim_20261103 SET amount_fen = amount_fen + 1 WHERE ctid IN (SELECT min(ctid) FROM cold_00_20261103.claim_3_03) AND slot = 3",
    "a greeting to NULL's neighbour": "UPDATE envelope_20261103 SET password_mac = NULL WHERE slot = 3 AND password_mac IS NOT NULL",
    "a claim more": "INSERT INTO claim_20261103 SELECT envelope_id, 1, claimed_at, 77, 99, slot, 'open', 'new' FROM cold_00_20261103.claim_4_03 LIMIT 1",
    "a claim less": "DELETE FROM claim_20261103 WHERE (envelope_id, seq) IN (SELECT envelope_id, seq FROM cold_00_20261103.claim_4_03 LIMIT 1)",
    "a guest": "UPDATE guest_20261103 SET wrong_tries = wrong_tries + 1 WHERE slot = 5",
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
async def test_rows_changed_in_postgres_are_found(databases: Databases, tmp_path: Path, what: str) -> None:
    """The archive is whole, but Postgres has other rows by now: refused as archive_differs."""
    dsn = await past(databases)
    await odd_rows(dsn)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        await export(connection, tmp_path)
        changed = await connection.execute(CHANGES[what])
        assert changed not in ("UPDATE 0", "DELETE 0", "INSERT 0 0")
        with pytest.raises(Refused, match="archive_differs"):
            await verify(connection, tmp_path)
        await nothing_left(connection)


async def test_a_scratch_that_a_kill_left_is_no_obstacle(databases: Databases, tmp_path: Path) -> None:
    """The next run drops it."""
    dsn = await past(databases)
    await fill(dsn, 50)
    async with owner(databases, dsn) as connection:
        await export(connection, tmp_path)
        await connection.execute("CREATE SCHEMA check_00_20261103; CREATE TABLE check_00_20261103.claim (x int)")
        await verify(connection, tmp_path)
        await nothing_left(connection)


async def test_a_new_column_stops_the_export(databases: Databases, tmp_path: Path) -> None:
    """A migration that adds a column must teach the archive first: nothing is exported without it."""
    dsn = await past(databases)
    async with owner(databases, dsn) as connection:
        await connection.execute("ALTER TABLE claim ADD COLUMN note varchar(8)")
        with pytest.raises(Refused, match=r"archive_schema_unknown.*note"):
            await export(connection, tmp_path)


async def test_an_archive_that_we_make_is_closed_whatever_the_umask(databases: Databases, tmp_path: Path) -> None:
    """Names, amounts and seeds of a day can be read by their owner only, also where root exports under umask 000."""
    folder = tmp_path / "archive"
    dsn = await past(databases)
    before = os.umask(0)
    try:
        async with owner(databases, dsn) as connection:
            await detach(connection)
            await export(connection, folder)
    finally:
        os.umask(before)
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
