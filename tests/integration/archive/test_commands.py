# ruff: noqa: E501 - one case a line reads best
"""`hongbao archive` and `hongbao query`: what people are told, and what a query can never do."""

import asyncio
import csv
import io
import json
import shutil
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from archive import manifest, place
from archive.export import archive_lock, export_database
from archive.restore import remove, restore
from archive.view import query
from cli.commands import archive as archive_commands
from cli.table import main
from errors import Refused
from installation import inventory
from installation.inventory import Cluster, Inventory
from runtime import logs
from runtime.files import write_private
from schema import roles
from schema.day_tables import DayTables
from sharding.ids import make_id
from sharding.slots import database_name
from sharding.topology import ServerSpec, SetSpec, Topology, dump, load
from sharding.topology.changes import move_from
from tests.conftest import ROLES, Databases
from tests.integration.archive.fixtures import (
    DAY,
    KEY,
    build_past,
    closed_envelope,
    detach,
    drop,
    fill,
    move_on,
    owner,
    put,
)

NEXT = DAY + timedelta(days=1)


logs.set_up("test", "warning")


@dataclass
class Kept:
    """Two days, two databases, archived; a data folder as a running stack has it."""

    dsn: str
    databases: Databases
    data: Path
    archive: place.Archive
    bob: int

    async def run(self, *args: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, main, [*args, "--data", str(self.data)])

    async def json(self, *args: str, code: int = 0) -> dict[str, Any]:
        ran = await self.run(*args, "--json")
        assert ran.exit_code == code, ran.output
        return json.loads(ran.stdout)

    @property
    def inventory(self) -> Inventory:
        return inventory.load(self.data / "installation.toml")

    def change(self, **changes: Any) -> None:
        """Write the inventory anew, with other clusters or another key."""
        inventory.save(msgspec.structs.replace(self.inventory, **changes), self.data / "installation.toml")

    def stop(self) -> None:
        """Let no Postgres answer, as when the stack is stopped: the inventory stays."""
        self.change(clusters={name: nobody(name) for name in self.inventory.clusters})


def nobody(name: str) -> Cluster:
    return Cluster(dsns=dict.fromkeys(ROLES, f"postgresql://nobody:none@127.0.0.1:1/{name}"))


def as_wallet(one: Cluster) -> Cluster:
    """A database where the audit finds nothing of a wallet, under an address of its own."""
    return Cluster(dsns={role: str(dsn).replace("127.0.0.1", "localhost") for role, dsn in one.dsns.items()})


def cluster(databases: Databases, dsn: str) -> Cluster:
    return Cluster(dsns={role: databases.dsn_as(dsn, role) for role in ROLES})


BOB = make_id(DAY, 77, 13)


async def build_kept(databases: Databases, folder: Path, dsn: str) -> None:
    """Two days in two databases, detached and exported into `folder`."""
    superuser = databases.dsn_as(dsn, "postgres")
    await build_past(dsn)
    await DayTables(dsn, range(2)).ensure(NEXT, ahead_days=0)
    await fill(superuser, 200)
    await fill(superuser, 100, day=NEXT, seed=2)
    header, claims = closed_envelope(BOB, 3, 1, greeting="for bob", sender="alice")
    await put(superuser, [header], [(*claims[0][:7], "bob"), *claims[1:]], [(BOB, 13, 0, True, "bob")])
    async with owner(databases, dsn) as connection:
        for day in (DAY, NEXT):
            await detach(connection, day)
            for xx in range(2):
                made = await export_database(connection, folder, KEY, xx=xx, day=day, proof=None)
                await move_on(connection, day, xx, "exported", made.digest)
                await move_on(connection, day, xx, "verified")


@pytest.fixture
async def kept(databases: Databases, tmp_path: Path, exported: Path) -> Kept:
    dsn = await databases.clone("kept", partial(build_kept, databases, exported))
    data = tmp_path / "data"
    data.mkdir()
    archive = place.Archive(data / "archive", KEY)
    await asyncio.to_thread(shutil.copytree, exported, archive.folder)
    write_private(data / "secrets.json", {"keys": {"ARCHIVE_KEY": KEY.decode()}})
    dump(
        Topology(1, 100, (SetSpec("set-1", (ServerSpec("a", "http://127.0.0.1:1"),)),), "http://127.0.0.1:2"),
        data / "topology.json",
    )
    inventory.save(Inventory(
        clusters={"set-1": cluster(databases, dsn)}, gateways={"gateway-1": "http://127.0.0.1:3"}, memcached="127.0.0.1:4",
        wallet_url="http://127.0.0.1:2", topology=str(data / "topology.json"), archive=str(archive.folder),
        secrets=str(data / "secrets.json"),
    ), data / "installation.toml")  # fmt: skip
    return Kept(dsn, databases, data, archive, BOB)


async def test_list_says_what_lies_there(kept: Kept) -> None:
    """Every archive with the sums of its manifest; an unsigned one has its code, and the exit status says so."""
    found = (await kept.json("archive", "list"))["archives"]
    assert [(one["day"], one["database"]) for one in found] == [
        (str(day), database_name(xx)) for day in (DAY, NEXT) for xx in range(2)
    ]
    assert all(one["paid_in_fen"] == one["claimed_fen"] + one["refunded_fen"] > 0 for one in found)
    assert "db_01" in (await kept.run("archive", "list", "--day", str(DAY))).stdout
    (kept.archive.folder / str(NEXT) / "db_00" / "manifest.json").write_text("{}")
    found = (await kept.json("archive", "list", "--day", str(NEXT), code=1))["archives"]
    assert [one["code"] for one in found] == ["archive_corrupt", None]


@pytest.mark.parametrize("ends", [True, False], ids=["for a moment", "for long"])
async def test_an_archive_that_the_rotation_has_is_not_wrong(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """It is looked at again, after the others; if it is busy for good, that is said, and no failure."""
    async with owner(kept.databases, kept.dsn) as rotating, archive_lock(rotating, xx=1, day=DAY):
        pid, again = rotating.get_server_pid(), archive_commands._again

        async def released(found: Any, look: Any) -> None:
            assert [row["code"] for row in found.values()] == [None, "archive_busy", None, None]
            if ends:
                other = await asyncpg.connect(kept.dsn)
                await other.execute("SELECT pg_terminate_backend($1, 10000)", pid)
                await other.close()
            await again(found, look)

        monkeypatch.setattr(archive_commands, "_again", released)
        monkeypatch.setattr(archive_commands, "AGAIN_S", 0.0)
        told = await kept.json("archive", "verify")
        assert told["holds"] is True
        codes = [one["code"] for one in told["archives"]]
        assert codes == [None, None if ends else "archive_busy", None, None]
    assert ends or "not looked at" in _shown(told["archives"])


def _shown(found: list[dict[str, Any]]) -> str:
    console = Console(file=io.StringIO(), width=200)
    archive_commands._show_verified(found, console)
    return console.file.getvalue()


async def test_a_set_that_is_away_hides_none_of_the_others(kept: Kept) -> None:
    """Status, plan and run tell of each SET or why they cannot, and the exit status is 1."""
    mine = kept.inventory.clusters["set-1"]
    kept.change(clusters={"set-1": mine, "set-2": nobody("set-2"), "wallet": as_wallet(mine)})
    (home,) = load(kept.data / "topology.json").sets
    other = SetSpec("set-2", (ServerSpec("b", "http://127.0.0.1:5"),))
    dump(Topology(1, 100, (other, home), "http://127.0.0.1:2"), kept.data / "topology.json")
    for words in (("rotate", "status"), ("rotate", "plan", "--date", str(DAY))):
        told = await kept.json(*words, code=1)
        codes = {one["set"]: one["error"] and one["error"]["code"] for one in told["sets"]}
        assert codes == {"set-1": None, "set-2": "database_unavailable"}, words
    told = await kept.json("rotate", "run", code=1)
    assert [(one["set"], one["error"]["code"]) for one in told["days"] if one["error"]] == [
        ("set-2", "database_unavailable")
    ]
    assert "set-2" in (await kept.run("rotate", "status")).output


async def test_with_dates_only_these_decide(kept: Kept) -> None:
    """Tables that run out, and other days, are not what was asked."""
    clusters = kept.inventory.clusters
    kept.change(clusters={**clusters, "wallet": as_wallet(clusters["set-1"])})
    assert not (await kept.json("rotate", "plan", code=1))["holds"]
    assert (await kept.json("rotate", "plan", "--date", str(DAY)))["holds"]


async def test_an_archive_that_is_not_there_does_not_hold(kept: Kept) -> None:
    """The folder is not mounted: every archive that a register names is missing, and verify says so."""
    kept.archive.folder.rename(kept.data / "elsewhere")
    kept.archive.folder.mkdir()
    told = await kept.json("archive", "verify", code=1)
    assert [(one["day"], one["database"], one["code"]) for one in told["archives"]] == [
        (str(day), database_name(xx), "archive_missing") for day in (DAY, NEXT) for xx in range(2)
    ]
    told = await kept.json("archive", "verify", "--database", "1", code=1)
    assert len(told["archives"]) == 2


async def test_nothing_found_where_no_register_was_asked_is_no_success(kept: Kept, tmp_path: Path) -> None:
    """Postgres away, or nothing installed in the data folder: an empty or missing folder proves nothing."""
    empty = tmp_path / "empty"
    empty.mkdir()
    write_private(empty / "secrets.json", {"keys": {"ARCHIVE_KEY": KEY.decode()}})
    for words in (("list",), ("verify",), ("copy", str(tmp_path / "target"))):
        ran = await asyncio.to_thread(CliRunner().invoke, main, ["archive", *words, "--data", str(empty)])
        assert (ran.exit_code, "no register was asked" in ran.stdout) == (1, True), (words, ran.output)
    kept.archive.folder.rename(kept.data / "elsewhere")
    kept.stop()
    told = await kept.json("archive", "verify", code=1)
    assert (told["holds"], told["archives"]) == (False, [])


async def test_an_archive_that_no_register_names_is_told(kept: Kept) -> None:
    """By its place, to people; what is named holds all the same."""
    day = DAY + timedelta(days=400)
    theirs = kept.archive.folder / str(day)
    shutil.copytree(kept.archive.folder / str(DAY), theirs)
    ran = await kept.run("archive", "verify")
    assert f"{theirs / 'db_01'}: no register here names it" in ran.stderr
    assert ran.stderr.count("no register here names it") == 2
    shutil.rmtree(theirs)
    ran = await kept.run("archive", "verify")
    assert (ran.exit_code, ran.stderr.count("no register")) == (0, 0)


async def test_a_date_is_looked_for_where_it_is_not_where_its_database_is_now(kept: Kept) -> None:
    """A database that moved by time has its old days where it was; verify asks that SET, and finds the tables."""
    there = await kept.databases.clone("past", build_past)
    kept.change(clusters={**kept.inventory.clusters, "set-2": cluster(kept.databases, there)})
    (home,) = load(kept.data / "topology.json").sets
    other = SetSpec("set-2", (ServerSpec("b", "http://127.0.0.1:5"),))
    pins = {database_name(xx): "set-1" for xx in range(10)}
    before = Topology(1, 100, (other, home), "http://127.0.0.1:2", pins=pins)
    dump(move_from(before, 0, "set-2", NEXT + timedelta(days=1)), kept.data / "topology.json")
    told = await kept.json("archive", "verify", "--day", str(DAY), "--database", "0")
    assert [(one["how"], one["code"]) for one in told["archives"]] == [("compared", None)]


async def test_another_key_than_the_running_servers_is_refused(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they could not read, and what would be forged to us, is neither written nor judged, also while they are down."""
    clusters = kept.inventory.clusters
    kept.change(clusters={**clusters, "wallet": as_wallet(clusters["set-1"])}, archive_key=manifest.fingerprint(KEY))
    assert (await kept.json("archive", "verify"))["holds"]
    monkeypatch.setenv("HONGBAO_ARCHIVE_KEY", "another key than that of the servers")
    for words in (("archive", "list"), ("archive", "verify"), ("rotate", "run"), ("audit",)):
        ran = await kept.run(*words)
        assert ran.exit_code == 1, words
        assert "started with another HONGBAO_ARCHIVE_KEY" in ran.output, words
    kept.stop()
    assert "started with another HONGBAO_ARCHIVE_KEY" in (await kept.run("archive", "verify")).output
    (kept.data / "installation.toml").unlink()
    assert not (await kept.json("archive", "verify", code=1))["holds"]


async def test_verify_compares_while_tables_stand_and_rereads_afterwards(kept: Kept) -> None:
    """How each was verified is said; a spoilt one is named; also when nothing runs."""
    async with owner(kept.databases, kept.dsn) as connection:
        await drop(connection, NEXT, 1)
    told = await kept.json("archive", "verify")
    assert told["holds"]
    assert [one["how"] for one in told["archives"]] == ["compared", "compared", "compared", "reread"]
    assert all(one["rows"] > 0 for one in told["archives"])
    claim = kept.archive.folder / str(NEXT) / "db_01" / "claim.parquet"
    content = claim.read_bytes()
    claim.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    told = await kept.json("archive", "verify", "--database", "1", code=1)
    assert [one["code"] for one in told["archives"]] == [None, "archive_corrupt"]
    kept.stop()
    told = await kept.json("archive", "verify", "--day", str(NEXT), code=1)
    assert [(one["how"], one["code"]) for one in told["archives"]] == [("reread", None), ("reread", "archive_corrupt")]
    ran = await kept.run("archive", "verify", "--day", str(DAY))
    assert (ran.exit_code, ran.stdout.count("holds")) == (0, 2)


async def test_an_archive_that_the_register_does_not_name_is_forged(kept: Kept) -> None:
    """A whole and signed archive of other rows is not the one that the register bound."""
    async with owner(kept.databases, kept.dsn) as connection:
        await move_on(connection, DAY, 0, "verified", "0" * 64)
    told = await kept.json("archive", "verify", "--day", str(DAY), code=1)
    assert [one["code"] for one in told["archives"]] == ["archive_forged", None]


async def test_restore_puts_a_date_beside_the_hot_one(kept: Kept) -> None:
    """Equal to the cold tables, read by setnode and audit, written by neither, and gone when it is taken away."""
    async with owner(kept.databases, kept.dsn) as connection:
        told = await kept.json("archive", "restore", str(DAY), "db_01")
        schema = told["schema"]
        assert schema == "restored_01_20261103"
        for table in ("envelope", "claim", "guest"):
            gone = f"SELECT * FROM {table}_20261103 WHERE slot / 10 = 1 EXCEPT ALL SELECT * FROM {schema}.{table}"
            more = f"SELECT * FROM {schema}.{table} EXCEPT ALL SELECT * FROM {table}_20261103"
            assert not await connection.fetch(gone)
            assert not await connection.fetch(more)
        assert told["rows"]["claim"] == await connection.fetchval(f"SELECT count(*) FROM {schema}.claim") > 0
        assert not await connection.fetchval("SELECT count(*) FROM payout_batch")
        for role in (roles.SETNODE, roles.AUDIT):
            reader = await asyncpg.connect(kept.databases.dsn_as(kept.dsn, role))
            assert await reader.fetchval(f"SELECT sum(total_fen) FROM {schema}.envelope") > 0
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await reader.execute(f"DELETE FROM {schema}.claim")
            await reader.close()
        ran = await kept.run("archive", "restore", str(DAY), "1")
        assert (ran.exit_code, "stands already" in ran.output) == (1, True)
        assert (await kept.json("archive", "restore", str(DAY), "1", "--remove"))["removed"]
        assert not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema)
        with pytest.raises(Refused, match="not_restored"):
            await remove(connection, xx=1, day=DAY)


async def test_a_restore_of_what_is_not_true_restores_nothing(kept: Kept) -> None:
    """A spoilt archive, one that is not there, a restore that was killed: no half of it stands."""
    where = kept.archive.folder / str(DAY) / "db_01"
    async with owner(kept.databases, kept.dsn) as connection:
        await connection.execute("CREATE SCHEMA restoring_01_20261103; CREATE TABLE restoring_01_20261103.claim ()")
        content = (where / "guest.parquet").read_bytes()
        (where / "guest.parquet").write_bytes(content + b"x")
        for xx, code in ((1, "archive_corrupt"), (5, "archive_missing")):
            with pytest.raises(Refused, match=code):
                await restore(connection, kept.archive.folder, KEY, xx=xx, day=DAY)
        (where / "guest.parquet").write_bytes(content)
        await restore(connection, kept.archive.folder, KEY, xx=1, day=DAY)
        names = await connection.fetch("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rest%'")
        assert [row["nspname"] for row in names] == ["restored_01_20261103"]


async def test_a_restored_date_is_of_a_dropped_one_too(kept: Kept) -> None:
    """What is nowhere but in the archive comes back whole."""
    async with owner(kept.databases, kept.dsn) as connection:
        claims = await connection.fetch("SELECT * FROM claim_20261103 WHERE slot / 10 = 1 ORDER BY envelope_id, seq")
        await drop(connection, DAY, 1)
        done = await restore(connection, kept.archive.folder, KEY, xx=1, day=DAY)
        assert await connection.fetch(f"SELECT * FROM {done.schema}.claim ORDER BY envelope_id, seq") == claims


def ask(kept: Kept, sql: str, limit: int = 1000) -> list[tuple[Any, ...]]:
    return query(kept.archive, sql, limit=limit).rows


async def test_a_query_reads_all_archived_days(kept: Kept) -> None:
    """The views hold every day and database; sums are those of Postgres; day and xx are columns."""
    async with owner(kept.databases, kept.dsn) as connection:
        for table, day in (("claim", DAY), ("envelope", NEXT)):
            column = "amount_fen" if table == "claim" else "total_fen"
            stored = await connection.fetch(
                f"SELECT slot / 10 AS xx, count(*), sum({column}) FROM {table}_{day:%Y%m%d} GROUP BY 1 ORDER BY 1"
            )
            found = ask(
                kept, f"SELECT xx, count(*), sum({column}) FROM {table} WHERE day = '{day}' GROUP BY 1 ORDER BY 1"
            )
            assert found == [tuple(row) for row in stored]
    assert ask(kept, "SELECT DISTINCT day, xx FROM claim ORDER BY 1, 2") == [
        (day, xx) for day in (DAY, NEXT) for xx in (0, 1)
    ]
    sql = f"SELECT e.greeting, c.amount_fen, c.claimed_at, e.password_mac FROM claim c JOIN envelope e USING (envelope_id, day) WHERE c.user_id = 'bob' AND day = '{DAY}';"
    ((greeting, _, at, mac),) = ask(kept, sql)
    assert (greeting, at, mac) == ("for bob", "2026-11-03 04:05:06.789123+00", None)
    assert ask(kept, "SELECT user_id FROM guest -- all of them") == [("bob",)]
    assert len(ask(kept, "FROM envelope ORDER BY envelope_id", limit=7)) == 7
    assert (
        ask(kept, "SELECT claimed_at, seq FROM claim ORDER BY claimed_at DESC, envelope_id LIMIT 1")[0][0]
        > "2026-11-04"
    )


async def test_a_condition_on_the_day_reads_only_its_files(kept: Kept) -> None:
    """A spoilt file of another day is not touched."""
    claim = kept.archive.folder / str(NEXT) / "db_01" / "claim.parquet"
    content = claim.read_bytes()
    claim.write_bytes(content[:4] + bytes(len(content) - 12) + content[-8:])
    assert ask(kept, f"SELECT count(*) FROM claim WHERE day = '{DAY}' AND seq >= 0")[0][0] > 0
    with pytest.raises(Refused, match="query_invalid"):
        ask(kept, "SELECT sum(amount_fen) FROM claim")


FORBIDDEN = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('{data}/secrets.json')",
    "SELECT * FROM '{data}/secrets.json'",
    "SELECT * FROM read_text('{data}/archive/2026-11-03/db_00/manifest.json')",
    "SELECT * FROM glob('{data}/*')",
    "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    "COPY (SELECT 1) TO '{data}/out.csv'",
    "COPY claim TO '{data}/archive/2026-11-03/db_00/claim.parquet'",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW claim",
    "INSERT INTO claim SELECT * FROM claim",
    "SET memory_limit = '100GB'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "ATTACH '{data}/x.db'",
    "PRAGMA version",
    "SELECT 1; DROP VIEW claim",
    "",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
async def test_a_query_only_reads_the_views(kept: Kept, sql: str) -> None:
    """No other file, no network, no writing, no setting: one sentence and exit status 1."""
    before = sorted((path, path.stat().st_mtime_ns) for path in kept.data.rglob("*"))
    with pytest.raises(Refused) as caught:
        ask(kept, sql.format(data=kept.data))
    assert caught.value.code == "query_only_select"
    assert sorted((path, path.stat().st_mtime_ns) for path in kept.data.rglob("*")) == before


async def test_bad_sql_is_told_clearly(kept: Kept) -> None:
    """A wrong word, column or function: what DuckDB says of it, as one error."""
    for sql, word in (
        ("SELEKT 1", "SELEKT"),
        ("SELECT amount FROM claim", "amount"),
        ("SELECT nope(1)", "nope"),
        ("SELECT 1/0 + 'x'::INT", "x"),
    ):
        with pytest.raises(Refused, match=word) as caught:
            ask(kept, sql)
        assert caught.value.code == "query_invalid"
    ran = await kept.run("query", "SELECT amount FROM claim")
    assert (ran.exit_code, ran.stdout) == (1, "")


@pytest.mark.long
async def test_a_query_that_is_too_large_says_so(kept: Kept) -> None:
    """Memory is bounded: no swap, no file, a sentence."""
    with pytest.raises(Refused, match="query_too_large"):
        ask(
            kept,
            "SELECT count(*) FROM (SELECT DISTINCT a.range * 1000003 + b.range FROM range(20000) a, range(20000) b)",
        )


async def test_the_three_forms_of_an_answer(kept: Kept) -> None:
    """A table for people; JSON with IDs as texts; CSV with a header. Also when nothing runs."""
    kept.stop()
    sql = "SELECT envelope_id, total_fen, greeting, day FROM envelope WHERE sender = 'alice'"
    told = await kept.json("query", sql)
    assert told["columns"] == ["envelope_id", "total_fen", "greeting", "day"]
    assert told["rows"] == [[str(kept.bob), 300, "for bob", str(DAY)]]
    assert told["left_out"] == []
    ran = await kept.run("query", sql, "--csv")
    assert list(csv.reader(io.StringIO(ran.stdout))) == [told["columns"], [str(kept.bob), "300", "for bob", str(DAY)]]
    assert "for bob" in (await kept.run("query", sql)).stdout
    ran = await kept.run("query", "SELECT * FROM claim", "--limit", "3", "--json")
    assert (len(json.loads(ran.stdout)["rows"]), json.loads(ran.stdout)["more"]) == (3, True)


async def test_an_archive_that_does_not_hold_is_left_out_aloud(kept: Kept) -> None:
    """Its rows are not in the answer, the reason is, and the exit status is 1."""
    (kept.archive.folder / str(NEXT) / "db_00" / "manifest.json").write_text("{}")
    (kept.archive.folder / str(NEXT) / "db_01" / "claim.parquet").write_bytes(b"short")
    told = await kept.json("query", "SELECT DISTINCT day FROM claim", code=1)
    assert told["rows"] == [[str(DAY)]]
    assert [one.partition(":")[0] for one in told["left_out"]] == [f"{NEXT} db_00", f"{NEXT} db_01"]


async def test_what_the_registers_name_and_is_not_there_is_left_out_aloud(kept: Kept) -> None:
    """A day that is gone, or a folder that is not mounted, is named and ends with 1; without registers that is said."""
    sql = "SELECT DISTINCT day FROM claim"
    told = await kept.json("query", sql)
    assert (told["complete"], told["left_out"]) == (True, [])
    away = kept.archive.folder / str(NEXT)
    away.rename(kept.archive.folder / "aside")
    told = await kept.json("query", sql, code=1)
    assert told["rows"] == [[str(DAY)]]
    assert told["complete"] is False
    assert [one.partition(":")[0] for one in told["left_out"]] == [f"{NEXT} db_00", f"{NEXT} db_01"]
    (kept.archive.folder / "aside").rename(away)
    kept.archive.folder.rename(kept.data / "unmounted")
    told = await kept.json("query", sql, code=1)
    assert (told["rows"], len(told["left_out"])) == ([], 4)
    (kept.data / "unmounted").rename(kept.archive.folder)
    kept.stop()
    ran = await kept.run("query", sql, "--json")
    assert (ran.exit_code, json.loads(ran.stdout)["complete"]) == (0, None)
    assert "an archive may be missing" in ran.stderr


async def test_a_query_verifies_hashes_when_it_is_asked_to(kept: Kept) -> None:
    """A byte changed behind the signature is found with --verify, and a manifest the register does not name always."""
    claim = kept.archive.folder / str(NEXT) / "db_01" / "claim.parquet"
    content = claim.read_bytes()
    claim.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    told = await kept.json("query", "SELECT 1 AS one", "--verify", code=1)
    assert [one.partition(":")[0] for one in told["left_out"]] == [f"{NEXT} db_01"]
    claim.write_bytes(content)
    assert (await kept.json("query", "SELECT 1 AS one", "--verify"))["left_out"] == []
    async with owner(kept.databases, kept.dsn) as connection:
        await move_on(connection, DAY, 0, "verified", "0" * 64)
    told = await kept.json("query", "SELECT 1 AS one", code=1)
    assert [one.partition(":")[0] for one in told["left_out"]] == [f"{DAY} db_00"]


async def test_a_query_ends_in_its_time(kept: Kept) -> None:
    """One that would run for hours is refused by name once its time is over."""
    sql = "SELECT sum((a.range * b.range) % 7) FROM range(100000) a, range(100000) b WHERE (a.range + b.range) % 3 = 1"
    ran = await kept.run("query", sql, "--timeout", "0.5")
    assert "was not over after 0.5 s" in ran.stderr, ran.stderr
    assert ran.exit_code == 1


async def test_no_text_of_a_csv_is_a_formula(kept: Kept) -> None:
    """A greeting that a spreadsheet would calculate is a text there; numbers stay numbers."""
    sql = "SELECT '=cmd|x' AS \"=head\", '@sum' AS b, -5 AS c, 'plain' AS d, '-1' AS e"
    ran = await kept.run("query", sql, "--csv")
    assert list(csv.reader(io.StringIO(ran.stdout))) == [
        ["'=head", "b", "c", "d", "e"], ["'=cmd|x", "'@sum", "-5", "plain", "'-1"],
    ]  # fmt: skip


async def test_an_empty_archive_has_empty_views(tmp_path: Path) -> None:
    """Before the first rotation a query is answered with nothing."""
    found = query(place.Archive(tmp_path, KEY), "SELECT day, xx, sum(amount_fen) FROM claim GROUP BY ALL", limit=10)
    assert (found.columns[:2], found.rows) == (["day", "xx"], [])
