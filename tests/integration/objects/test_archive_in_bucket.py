"""An archive in an object store: what goes in comes out, and nothing half, changed or foreign is ever believed."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from archive import export as export_module
from archive import store
from archive.adapter import ArchiveAdapter
from archive.bucket import layout, publication
from archive.bucket.signed import blocks_of, encode
from archive.details import Details
from archive.export import export_database
from archive.known import announce
from archive.place import Archive
from archive.restore import remove, restore
from archive.verify import reread, verify_database
from archive.view import query
from errors import HongbaoError, Refused
from objectstore import bucket as bucket_module
from objectstore.bucket import Bucket
from setnode.activation.log_rows import restore as restored_log
from sharding.ids import make_id
from tests.conftest import Databases
from tests.integration.archive.fixtures import (
    DAY,
    KEY,
    build_past,
    closed_envelope,
    detach,
    fill,
    move_on,
    owner,
    put,
)
from tests.integration.objects.faulty_front import Answer, Asked, FaultyFront
from tests.integration.objects.fixtures import bucket, front

__all__ = ["bucket", "front"]
ENVELOPE = make_id(DAY, 77, 3)


@dataclass
class Day:
    """A detached day of two databases, on its way into a bucket."""

    connection: Any
    archive: Archive
    bucket: Bucket
    front: FaultyFront

    async def export(self, xx: int = 0) -> Any:
        return await export_database(self.connection, *self.archive, xx=xx, day=DAY, proof={"by": "test"})

    async def verify(self, xx: int = 0) -> Any:
        return await verify_database(self.connection, *self.archive, xx=xx, day=DAY)

    async def named(self, xx: int = 0) -> Any:
        """Export, and have the register name the archive."""
        made = await self.export(xx)
        await move_on(self.connection, DAY, xx, "exported", made.digest)
        return made

    async def refused(self, work: Any) -> str:
        """Return the code of a refusal whose sentence says something."""
        with pytest.raises(HongbaoError) as raised:
            await work
        assert len(raised.value.detail) > 20
        return raised.value.code

    def names(self) -> list[str]:
        """List what is in the bucket."""
        return sorted(one.name for one in self.bucket.listed())

    def spoil(self, name: str, change: Any) -> None:
        """Change an object behind our back."""
        content, _ = self.bucket.read(name, 1 << 30)
        self.bucket.delete([name])
        self.bucket.create(name, change(content))


@pytest.fixture
async def day(databases: Databases, bucket: Bucket, front: FaultyFront) -> AsyncIterator[Day]:
    dsn = await databases.clone("past", build_past)
    await fill(dsn, 300)
    header, claims = closed_envelope(ENVELOPE, 5, 3, greeting="恭喜")
    await put(dsn, [header], claims, [(ENVELOPE, 3, 2, True, "bob")])
    async with owner(databases, dsn) as connection:
        await detach(connection)
        yield Day(connection, Archive(bucket, KEY), bucket, front)


async def test_what_goes_in_comes_out(day: Day) -> None:
    """Exported, compared with Postgres, reread, restored, read one by one and queried: equal, and under their names."""
    made = [await day.named(xx) for xx in range(2)]
    d16 = made[0].digest[: layout.GENERATION]
    assert [one for one in day.names() if "xx=00" in one or "db_00" in one] == [
        *(f"{kind}/day=2026-11-03/xx=00/{d16}.parquet" for kind in ("claim", "envelope", "guest")),
        f"manifest/2026-11-03/db_00/{d16}.json",
    ]
    assert store.archived(day.bucket) == [(DAY, 0), (DAY, 1)]
    for xx, one in enumerate(made):
        assert (await day.verify(xx)).manifest == one
        assert (await reread(*day.archive, xx=xx, day=DAY)).manifest == one
        assert store.opened(day.archive, xx=xx, day=DAY).manifest == one
    done = await restore(day.connection, *day.archive, xx=0, day=DAY)
    assert await day.connection.fetchval(f"SELECT count(*) FROM {done.schema}.claim") == made[0].claims
    await remove(day.connection, xx=0, day=DAY)
    details = Details(*day.archive)
    row = await asyncio.to_thread(details.read, ENVELOPE, made[0].digest)
    log = restored_log(row)
    assert (log.terms.envelope_id, log.terms.greeting, len(log.winners), row["guests"]) == (
        ENVELOPE,
        "恭喜",
        3,
        ("bob",),
    )
    assert await asyncio.to_thread(details.read, ENVELOPE + 1000, made[0].digest) is None
    details.close()
    sql = "SELECT xx, count(*), sum(amount_fen) FROM claim GROUP BY xx ORDER BY xx"
    registered = {(DAY, xx): one.digest for xx, one in enumerate(made)}
    found = await asyncio.to_thread(query, day.archive, sql, limit=10, registered=registered)
    assert [(xx, rows) for xx, rows, _ in found.rows] == [(0, made[0].claims), (1, made[1].claims)]
    assert found.left_out == []
    assert (await day.export()) == made[0], "an archive that the register names is kept"


async def test_a_bucket_says_what_a_folder_says(day: Day, tmp_path: Path) -> None:
    """The same rows give the same manifest in a folder, whose files are the same bytes."""
    made = await day.export()
    other = await export_database(day.connection, tmp_path, KEY, xx=0, day=DAY, proof={"by": "test"})
    assert other.digest == made.digest
    for name in other.files:
        stored, _ = day.bucket.read(layout.file_name(name, 0, DAY, made.digest), 1 << 30)
        assert stored == (tmp_path / str(DAY) / "db_00" / name).read_bytes()
    content, _ = day.bucket.read(layout.manifest_name(0, DAY, made.digest), 1 << 20)
    inside, outside = json.loads(content), json.loads((tmp_path / str(DAY) / "db_00" / "manifest.json").read_bytes())
    assert {name: inside[name] for name in outside} == outside


async def test_two_archivers_at_once(day: Day, databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same rows both succeed and one archive is there, even without the lock that keeps them apart."""

    @asynccontextmanager
    async def no_lock(*_: Any, **__: Any) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(export_module, "archive_lock", no_lock)
    at_the_gate = []

    def together(asked: Asked) -> None:
        if asked.method == "PUT" and "/manifest/" in asked.path:
            at_the_gate.append(asked)
            both.wait(30)

    both = threading.Barrier(2)
    day.front.breaks = together
    name = await day.connection.fetchval("SELECT current_database()")
    host, port = day.connection._addr
    async with owner(databases, f"postgresql://{host}:{port}/{name}") as second:
        other = export_database(second, *day.archive, xx=0, day=DAY, proof={"by": "test"})
        one, two = await asyncio.gather(day.export(), other)
    assert len(at_the_gate) == 2
    assert one == two
    assert len(publication.generations(day.bucket)) == 1
    day.front.heal()
    assert (await day.verify()).manifest == one


async def test_an_older_writing_stays_until_the_register_names_the_new_one(day: Day) -> None:
    """Read by the digest that the register names; once that is verified, the other one is gone, if it was ours."""
    old = await day.named()
    await announce(day.connection, xx=0, day=DAY, digest="f" * 64)
    foreign = layout.file_name("claim.parquet", 0, DAY, "e" * 64)
    for name in (foreign, layout.file_name("claim.parquet", 0, DAY, "f" * 64)):
        day.bucket.create(name, b"half")
    spare = layout.manifest_name(0, DAY, "f" * 64)
    day.bucket.create(spare, b"{}")
    assert store.opened(day.archive, xx=0, day=DAY, digest=old.digest).manifest == old
    assert await day.refused(reread(*day.archive, xx=0, day=DAY)) == "archive_corrupt", "no register: the last one put"
    assert await ArchiveAdapter(day.archive).verify(day.connection, xx=0, day=DAY) == old
    assert [name for name in day.names() if old.digest[: layout.GENERATION] not in name] == [foreign]


async def test_what_was_changed_behind_us_is_refused(day: Day) -> None:
    """A file, a row group, a manifest or its block hashes replaced: each by its code; a new export cures it."""
    made = await day.named()
    claim = layout.file_name("claim.parquet", 0, DAY, made.digest)
    manifest = layout.manifest_name(0, DAY, made.digest)

    async def codes() -> tuple[str, str]:
        details = Details(*day.archive)
        read = asyncio.to_thread(details.read, ENVELOPE, made.digest)
        found = await day.refused(read), await day.refused(day.verify())
        details.close()
        return found

    flipped = lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:]  # noqa: E731
    day.spoil(claim, flipped)
    assert await codes() == ("archive_corrupt", "archive_corrupt")
    assert (await day.export()) == made
    day.spoil(claim, lambda content: content[:-50])
    assert await codes() == ("archive_corrupt", "archive_corrupt")
    day.bucket.delete([claim])
    assert await codes() == ("archive_missing", "archive_missing")
    assert (await day.export()) == made
    day.spoil(manifest, lambda content: content.replace(b'"xx": 0', b'"xx": 1'))
    assert await codes() == ("archive_forged", "archive_forged")
    assert (await day.export()) == made
    day.spoil(manifest, lambda content: re.sub(rb'("claim.parquet":")(\w{8})', rb"\g<1>00000000", content))
    assert await codes() == ("archive_forged", "archive_forged")
    day.spoil(manifest, lambda _: b"no JSON")
    assert await codes() == ("archive_corrupt", "archive_corrupt")
    day.bucket.delete([manifest])
    assert await codes() == ("archive_missing", "archive_missing")
    assert (await day.export()) == made
    assert (await day.verify()).manifest == made


async def test_a_manifest_with_an_unknown_name_is_refused(day: Day) -> None:
    """Signed by us, but with a file that this code does not know: nothing of it is used."""
    made = await day.named()

    odd = msgspec.structs.replace(made, files={**made.files, "extra.parquet": made.files["claim.parquet"]})
    day.bucket.create(layout.manifest_name(0, DAY, odd.digest), encode(odd, blocks_of({}), KEY))
    with pytest.raises(Refused) as raised:
        store.opened(day.archive, xx=0, day=DAY, digest=odd.digest)
    assert raised.value.code == "archive_corrupt"
    assert "does not name the files of an archive" in raised.value.detail


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (507, "XMinioStorageFull", "bucket_full"),
        (403, "AccessDenied", "bucket_denied"),
        (404, "NoSuchBucket", "bucket_missing"),
        (503, "SlowDown", "bucket_away"),
    ],
)
async def test_an_export_that_is_refused_changes_nothing(
    day: Day, monkeypatch: pytest.MonkeyPatch, status: int, said: str, code: str
) -> None:
    """A full, read-only, missing or overloaded bucket, at the first file and at the manifest: a code, no archive."""
    monkeypatch.setattr(bucket_module, "RETRIES", 0)
    day.front.always("PUT", status, said)
    assert await day.refused(day.export()) == code
    day.front.breaks = lambda asked: (
        Answer(status, said) if asked.method == "PUT" and "/manifest/" in asked.path else None
    )
    assert await day.refused(day.export()) == code
    day.front.heal()
    assert store.archived(day.bucket) == [], "files without a manifest are nobody's"
    made = await day.named()
    day.front.always("GET", status, said)
    assert await day.refused(day.export()) == code, "a store that denies us does not make an archive spoilt"
    day.front.heal()
    assert (await day.verify()).manifest == made


async def test_a_listing_that_is_late_loses_nothing(day: Day) -> None:
    """Without a new object, or with a deleted one: who has the register's digest reads the archive or is told."""
    made = await day.named()
    day.front.changes = lambda asked, body: (
        re.sub(rb"<Contents>.*</Contents>", b"", body, flags=re.DOTALL) if asked.lists else body
    )
    assert store.archived(day.bucket) == []
    assert (await day.verify()).manifest == made
    found = await asyncio.to_thread(
        query, day.archive, "SELECT count(*) FROM claim", limit=1, registered={(DAY, 0): made.digest}
    )
    assert found.rows == [(made.claims,)]
    listing: list[bytes] = []
    day.front.changes = lambda asked, body: (listing.append(body) if asked.lists else None) or body
    assert store.archived(day.bucket) == [(DAY, 0)]
    day.front.changes = lambda asked, body: listing[0] if asked.lists else body
    await asyncio.to_thread(day.bucket.delete, [layout.manifest_name(0, DAY, made.digest)])
    assert store.archived(day.bucket) == [(DAY, 0)]
    assert await day.refused(asyncio.to_thread(store.opened, day.archive, xx=0, day=DAY)) == "archive_missing"


async def test_one_envelope_costs_few_requests(day: Day) -> None:
    """The manifest, a footer and a row group of each file at most; the next envelope of the day costs none of these."""
    made = await day.named()
    details = Details(*day.archive)
    day.front.seen.clear()
    assert await asyncio.to_thread(details.read, ENVELOPE, made.digest) is not None
    assert len(day.front.seen) <= 7
    assert all(one.method == "GET" for one in day.front.seen)
    day.front.seen.clear()
    assert await asyncio.to_thread(details.read, ENVELOPE, made.digest) is not None
    assert day.front.seen == []
    details.close()
