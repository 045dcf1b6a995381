# ruff: noqa: E501 - a column more or less
"""How fast one envelope comes out of a large archive, and how fast and lean a day goes in. Printed, never asserted.

    COLD_CLAIMS=10000000 pytest -s tests/integration/archive/test_cold_speed.py

Sketch: 10^7 claims in row groups of 61,440 are 163 groups; the footer (130 KB) says which one holds the ID, and that
group's columns are 600 KB to read and decode: a few milliseconds, ten times that with a cold page cache.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import asyncpg

from archive import engine, manifest, place
from archive.details import Details
from archive.tables import TABLES
from schema import roles
from setnode.activation.log_rows import restore
from sharding.ids import first_id
from tests.conftest import Databases
from tests.integration.archive.fixtures import AT, DAY, KEY, build_past, closed_envelope, detach
from tests.sizes import sized

CLAIMS = int(os.environ.get("COLD_CLAIMS", sized(500_000, 130_000)))
SHARES = 20
REAL = 50


def build(folder: Path) -> tuple[list[int], str]:
    """Write a synthetic archive of CLAIMS claims whose every n-th envelope is real; returns those and the digest."""
    where = place.folder_of(folder, xx=0, day=DAY)
    where.mkdir(parents=True)
    envelopes = CLAIMS // SHARES
    ids = [first_id(DAY) + (number * (10**10 // envelopes)) * 1000 + number % 10 for number in range(envelopes)]
    real = ids[:: envelopes // REAL]
    rows = [closed_envelope(one, SHARES, SHARES) for one in real]
    duck = engine.connect(memory_mb=4_000)
    duck.execute("CREATE TABLE one (envelope_id BIGINT, n INT)")
    duck.execute(f"INSERT INTO one SELECT {first_id(DAY)} + (i * {10**10 // envelopes}) * 1000 + i % 10, i FROM range({envelopes}) t(i)")  # fmt: skip
    duck.execute(
        "CREATE TABLE envelope AS SELECT envelope_id, 2000::BIGINT total_fen, $1::TIMESTAMPTZ created_at, $1::TIMESTAMPTZ "
        "opens_at, $1::TIMESTAMPTZ + INTERVAL 1 DAY expires_at, 20 shares, (envelope_id % 1000)::SMALLINT slot, "
        "1::SMALLINT split_version, 'lucky' kind, 'double_mean' split, false named, 'sender' || n sender, "
        "sha256(n::VARCHAR) seed, md5(n::VARCHAR) create_key, NULL::VARCHAR password_mac, '恭喜发财' greeting, "
        "NULL::BIGINT min_fen, NULL::BIGINT max_fen, NULL::VARCHAR header_seal FROM one",
        [AT.isoformat()],
    )
    duck.execute(
        "CREATE TABLE claim AS SELECT envelope_id, (1 + hash(n * 20 + s) % 200)::BIGINT amount_fen, $1::TIMESTAMPTZ + "
        "INTERVAL 1 MILLISECOND * (hash(s + n) % 86400000)::BIGINT claimed_at, s::INT seq, 20 shares, "
        "(envelope_id % 1000)::SMALLINT slot, 'open' kind, 'user-' || hash(n + s * 7) % 10000000 user_id "
        "FROM one, range(20) r(s)",
        [AT.isoformat()],
    )
    for name in ("envelope", "claim"):
        duck.execute(f"DELETE FROM {name} WHERE envelope_id IN (SELECT unnest($1))", [real])
    marks = {width: f"({', '.join('?' * width)})" for width in (8, 19)}
    for header, claims in rows:
        duck.execute(
            f"INSERT INTO envelope VALUES {marks[19]}", [str(one) if hasattr(one, "tzinfo") else one for one in header]
        )
        for claim in claims:
            duck.execute(
                f"INSERT INTO claim VALUES {marks[8]}", [str(one) if hasattr(one, "tzinfo") else one for one in claim]
            )
    duck.execute(
        "CREATE TABLE guest (envelope_id BIGINT, slot SMALLINT, wrong_tries SMALLINT, invited BOOLEAN, user_id VARCHAR)"
    )
    files = {}
    for table in TABLES:
        path = where / table.file
        columns, order = ", ".join(table.columns), ", ".join(table.order)
        duck.execute(
            f"COPY (SELECT {columns} FROM {table.kind.value} ORDER BY {order}) TO '{path}' "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {table.row_group})"
        )
        files[table.file] = manifest.File(
            rows=0, size=path.stat().st_size, sha256=place.sha256_of(path), rows_sha256=""
        )
    duck.close()
    made = manifest.Manifest(
        day=DAY, xx=0, schema_version="synthetic", envelopes=envelopes, claims=CLAIMS, guests=0, paid_in_fen=0,
        claimed_fen=0, refunded_fen=0, first_id=ids[0], last_id=ids[-1], files=files,
    )  # fmt: skip
    (where / "manifest.json").write_bytes(manifest.sign(made, KEY))
    return real, made.digest


async def test_one_envelope_out_of_many(tmp_path: Path) -> None:
    """Each real envelope of a large archive comes out whole; the times are printed."""
    real, digest = await asyncio.to_thread(build, tmp_path)
    size = (place.folder_of(tmp_path, xx=0, day=DAY) / "claim.parquet").stat().st_size
    details, times, work = Details(tmp_path, KEY), [], []
    random.Random(1).shuffle(real)
    for envelope_id in real:
        started, worked = time.perf_counter(), time.process_time()
        row = await asyncio.to_thread(details.read, envelope_id, digest)
        times.append((time.perf_counter() - started) * 1000)
        work.append((time.process_time() - worked) * 1000)
        log = restore(row)
        assert (log.terms.envelope_id, len(log.winners), log.left_fen) == (envelope_id, SHARES, 0)
    first, *warm = times
    warm.sort()
    figures = {
        "claims": CLAIMS, "claim_file_mb": round(size / 1e6, 1), "bytes_per_claim": round(size / CLAIMS, 2),
        "first_ms": round(first, 1), "cold_read_ms": round(warm[len(warm) // 2], 1), "worst_ms": round(warm[-1], 1),
        "cpu_ms": round(sorted(work)[len(work) // 2], 1),
    }  # fmt: skip
    print(json.dumps(figures))  # noqa: T201 - what this is for
    assert await asyncio.to_thread(details.read, real[0] + 1000, digest) is None


CHILD = """
import asyncio, json, resource, sys, time
from pathlib import Path
import asyncpg
from archive.export import export_database
from archive.verify import verify_database
from tests.integration.archive.fixtures import DAY, KEY

async def main():
    connection = await asyncpg.connect(sys.argv[1])
    folder = Path(sys.argv[2])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.perf_counter()
    made = await export_database(connection, folder, KEY, xx=0, day=DAY, proof=None)
    export_s = time.perf_counter() - started
    exported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.perf_counter()
    await verify_database(connection, folder, KEY, xx=0, day=DAY)
    verify_s = time.perf_counter() - started
    size = sum(file.size for file in made.files.values())
    print(json.dumps({
        "claims": made.claims, "export_per_s": round(made.claims / export_s), "verify_per_s": round(made.claims / verify_s),
        "bytes_per_claim": round(size / made.claims, 2), "python_mb": round(before), "export_mb": round(exported),
        "verify_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }))

asyncio.run(main())
"""


async def test_export_and_verify(databases: Databases, tmp_path: Path) -> None:
    """A day's rows go in and are read back in a process of their own, whose memory and pace are printed."""
    dsn = await databases.clone("past", build_past)
    superuser = await asyncpg.connect(dsn)
    await superuser.execute("SET session_replication_role = replica")
    envelopes = CLAIMS // SHARES
    ids = f"{first_id(DAY)} + (n::bigint * {10**10 // envelopes}) * 1000 + n % 10"
    await superuser.execute(
        f"INSERT INTO envelope SELECT {ids}, 2000, $1::timestamptz, $1::timestamptz, $1::timestamptz + interval '1 day', 20, n % 10, 1, 'lucky', 'double_mean', "
        "false, 'sender' || n, encode(sha256(n::text::bytea), 'hex'), md5(n::text), NULL, '恭喜发财' "
        f"FROM generate_series(0, {envelopes - 1}) AS t (n)",
        AT,
    )
    await superuser.execute(
        f"INSERT INTO claim SELECT {ids}, 100, $1::timestamptz + interval '1 ms' * (n::bigint * 7919 % 40000000), s, 20, n % 10, "
        f"'open', 'user-' || (n::bigint * 7919 + s * 104729) % 10000000 FROM generate_series(0, {envelopes - 1}) AS t (n), "
        "generate_series(0, 19) AS r (s) ORDER BY hashint4(n), s",
        AT,
    )
    await superuser.execute("VACUUM ANALYZE")
    await detach(superuser, databases=range(1))
    await superuser.close()
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CHILD, databases.dsn_as(dsn, roles.OWNER), str(tmp_path)],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout.splitlines()[-1])
    assert figures["claims"] == CLAIMS // SHARES * SHARES
    print(json.dumps(figures), ran.stdout)  # noqa: T201 - what this is for
