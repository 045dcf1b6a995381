"""What an archive in an object store costs: to put a day there and prove it, and to show one envelope of it.

Questions: how many claims a second go into a bucket, exported from Postgres and read back and compared? How long does
one cold envelope take, out of a day of 10^7 claims? Workload: a SET with one database, its day filled with sold-out
envelopes of SHARES shares and many users; export and verification by the rotation's own adapter; then envelopes at
random, first by a reader that knows nothing (manifest, footers, row groups), then by one that has read the day's other
envelopes. The server is moto's, in Python, on the same cores: it copies a whole object for each range of it.

Sketch: an export is bound by COPY and DuckDB at 200,000 claims a second, verification by COPY back and a join at
150,000; with uploads of 11 bytes a claim the two should do 80,000 together. A cold envelope is a manifest of 30 KB,
three footers and two row groups of 0.5 MB, in 6 requests of some ms.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from archive.adapter import ArchiveAdapter
from archive.details import Details
from archive.place import Archive
from errors import InvariantBroken
from loadtest.bench.figures import Bench, Figures, Row, Section
from loadtest.bench.fill import fill_days
from loadtest.bench.oneset import OneSet, Tables, one_set
from loadtest.s3_process import make_bucket, reached, s3_server
from objectstore.bucket import Bucket, bucket_of
from runtime import postgres

KEY: Final = b"bench objects archive key"
SHARES: Final = 20
USERS: Final = 10_000_000
READS: Final = 50
SEED: Final = 1


@dataclass(frozen=True)
class Size:
    """Claims of the day; readers that know nothing."""

    claims: int = 10_000_000
    newcomers: int = 10


QUICK = Size(1_000_000, 5)
TINY = Size(2_000, 2)


async def measure(bench: Bench, size: Size) -> Figures:
    """Fill a day, take it into the bucket, read envelopes of it."""
    folder = await asyncio.to_thread(bench.scratch, "objects")
    with s3_server(folder / "s3.log") as endpoint, reached(endpoint):
        make_bucket(endpoint, "bench")
        bucket = bucket_of("s3://bench/archive")
        async with one_set(folder, Tables(slots=10)) as one:
            bench.say(f"{size.claims:,} claims")
            claims = await fill_days(one, size.claims, days=1, shares=SHARES, users=USERS)
            await one.tidy()
            figures = await _stored(bench, one, bucket, claims)
            bench.say("reading envelopes")
            figures |= await _read(one, bucket, size, figures.pop("digest"))
        figures["file_bytes_per_claim"] = round(sum(held.size for held in bucket.listed("claim")) / claims, 1)
    bench.audit("objects", holds=True)
    return figures


async def _stored(bench: Bench, one: OneSet, bucket: Bucket, claims: int) -> Figures:
    """Export and verify the day; raises InvariantBroken unless all of it is there."""
    adapter = ArchiveAdapter(Archive(bucket, KEY))
    connection = await postgres.connect(one.owner)
    try:
        bench.say("exporting")
        started = time.perf_counter()
        made = await adapter.export(connection, xx=0, day=one.today, proof=None)
        exported = time.perf_counter()
        bench.say("reading it back")
        read = await adapter.verify(connection, xx=0, day=one.today)
        verified = time.perf_counter()
    finally:
        await connection.close()
    if (made.claims, read.digest) != (claims, made.digest):
        raise InvariantBroken("the_day_is_there", f"{claims} claims were exported as {made.claims}")
    return {
        "digest": made.digest,
        "claims": claims,
        "export_per_s": claims / (exported - started),
        "verify_per_s": claims / (verified - exported),
        "s3_export_claims_per_s": claims / (verified - started),
    }


async def _read(one: OneSet, bucket: Bucket, size: Size, digest: str) -> Figures:
    connection = await postgres.connect(one.owner)
    try:
        found = await connection.fetch("SELECT envelope_id FROM envelope")
    finally:
        await connection.close()
    luck = random.Random(SEED)
    ids = [row["envelope_id"] for row in luck.sample(found, min(READS, len(found)))]
    first = []
    for envelope_id in ids[: size.newcomers]:
        details = Details(bucket, KEY)
        first.append(await _timed(details, envelope_id, digest))
        details.close()
    details = Details(bucket, KEY)
    warm = [await _timed(details, envelope_id, digest) for envelope_id in ids][1:]
    details.close()
    return {
        "first_read_ms": statistics.median(first),
        "s3_cold_read_ms": statistics.median(warm),
        "s3_cold_read_most_ms": max(warm),
    }


async def _timed(details: Details, envelope_id: int, digest: str) -> float:
    started = time.perf_counter()
    row: Any = await asyncio.to_thread(details.read, envelope_id, digest)
    taken = (time.perf_counter() - started) * 1000
    if row is None or len(row["seqs"]) != SHARES:
        raise InvariantBroken("the_envelope_is_there", f"{envelope_id} came out otherwise than it went in")
    return taken


async def _measure(bench: Bench) -> Figures:
    return await measure(bench, QUICK if bench.quick else Size())


def _rows(figures: Figures) -> Iterable[Row]:
    both = f"export {figures['export_per_s']:,.0f}, verification {figures['verify_per_s']:,.0f}"
    yield Row("a day into a bucket, proven", f"{figures['s3_export_claims_per_s']:,.0f} claims/s", both)
    of = f"of {figures['claims']:,} claims; the slowest {figures['s3_cold_read_most_ms']:,.0f} ms"
    yield Row("one cold envelope", f"{figures['s3_cold_read_ms']:,.0f} ms", of)
    yield Row("the first one of a day", f"{figures['first_read_ms']:,.0f} ms", "manifest and footers are not known yet")


SECTION: Final = Section("objects", "days in an object store", _measure, _rows)
