"""Archives that an earlier version wrote: read, verified and queried beside those of today."""

import functools
from pathlib import Path

import pytest

from archive import engine, export, manifest, place, restore, stream, tables, view
from archive.details import Details
from archive.place import Archive
from archive.verify import reread, verify_database
from errors import Refused
from sharding.ids import make_id
from tests.conftest import Databases
from tests.integration.archive.fixtures import DAY, KEY, closed_envelope, detach, fill, owner, put
from tests.integration.archive.test_archive import past

ENVELOPE = make_id(DAY, 77, 3)


async def test_an_archive_of_format_1_is_read_like_one_of_today(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the bounds and the seal: verified against Postgres and by itself, read, streamed, queried, restored."""
    dsn = await past(databases)
    await fill(dsn, 50, databases=1)
    header, claims = closed_envelope(ENVELOPE, 5, 2)
    await put(dsn, [header], claims)
    async with owner(databases, dsn) as connection:
        await detach(connection)
        with monkeypatch.context() as patch:
            patch.setattr(export, "TABLES", tables.tables_of(1))
            patch.setattr(export, "Manifest", functools.partial(manifest.Manifest, format=1))
            old = await export.export_database(connection, tmp_path, KEY, xx=0, day=DAY, proof=None)
        new = await export.export_database(connection, tmp_path, KEY, xx=1, day=DAY, proof=None)
        assert (old.format, new.format) == (1, 2)
        assert (await verify_database(connection, tmp_path, KEY, xx=0, day=DAY)).rows > 50
        assert (await reread(tmp_path, KEY, xx=0, day=DAY)).manifest == old
        restored = await restore.restore(connection, tmp_path, KEY, xx=0, day=DAY)
        count = await connection.fetchval(f"SELECT count(*) FROM {restored.schema}.envelope WHERE min_fen IS NULL")
        assert count == old.envelopes == 51
    found = Details(tmp_path, KEY).read(ENVELOPE, old.digest)
    assert found is not None
    assert (found["min_fen"], found["max_fen"], found["header_seal"]) == (None, None, None)
    duck = engine.connect()
    rows = [row async for row in stream.headers(duck, place.folder_of(tmp_path, xx=0, day=DAY))]
    duck.close()
    assert [row["envelope_id"] for row in rows] == sorted(row["envelope_id"] for row in rows)
    assert {row["max_fen"] for row in rows} == {None}
    seen = view.query(Archive(tmp_path, KEY), "SELECT xx, count(*), count(min_fen) FROM envelope GROUP BY xx", limit=9)
    assert seen.left_out == []
    assert sorted(seen.rows) == [(0, 51, 0)]


def test_a_format_of_the_future_is_refused() -> None:
    """A format that this version does not know is refused by name."""
    with pytest.raises(Refused, match="archive_format_unknown"):
        tables.tables_of(3)
