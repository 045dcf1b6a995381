"""Days whose archive is in a bucket: users, the audit and `user forget` see them as they do with a folder."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive import store
from archive.place import Archive
from objectstore.bucket import Bucket
from tests.conftest import Databases
from tests.integration.archive.fixtures import KEY, detach
from tests.integration.archive.past import past_with
from tests.integration.archive.test_cold_reads import archived, forget
from tests.integration.objects.faulty_front import FaultyFront
from tests.integration.objects.fixtures import bucket, front
from tests.integration.rotation.fixtures import ARCHIVE_KEY, DAY, XXS
from tests.integration.setnode import fixtures as towns
from tests.integration.users.fixtures import ALICE, AlicesPast, books, past_in
from tests.integration.users.test_export import exported as document_of
from tests.integration.users.test_killed import kill_at
from users import forget as forgetting

__all__ = ["bucket", "front"]


@pytest.mark.long
async def test_everybody_is_told_the_same(
    databases: Databases, memcached: str, tmp_path: Path, bucket: Bucket, front: FaultyFront
) -> None:
    """Once the day is dropped, detail and cancel answer from the bucket; the audit holds; a bucket away is 503."""
    async with past_with(databases, memcached, tmp_path, bucket) as past:
        before = await past.everything()
        async with past.owner as connection:
            await detach(connection, past.day, towns.XXS)
        await past.look()
        await past.archive()
        await past.drop()
        await forget(past)
        assert await past.everything() == archived(before)
        assert (await past.audit()).violations == []
        await forget(past)
        front.always("GET", 403, "AccessDenied")
        for node in past.town.nodes:
            node.cold._details = type(node.cold._details)(bucket, KEY)
        told = {code for code in (await past.everything()).values() if isinstance(code, str)}
        assert told == {"archive_unavailable"}
        assert {one.check for one in (await past.town.audit()).violations} == {"cold_day_is_there"}
        front.heal()
        assert await past.everything() == archived(before)


@pytest.fixture
async def alice(
    databases: Databases, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AlicesPast]:
    monkeypatch.setattr(forgetting, "CACHES_S", 0.0)
    one = await past_in(databases, tmp_path, books(), Archive(bucket, ARCHIVE_KEY))
    yield one
    assert await one.violations() == []


KILLED = [("dropped", "published"), ("verified", "written")]


@pytest.mark.long
@pytest.mark.parametrize(("state", "point"), KILLED)
async def test_a_name_is_taken_out_of_a_bucket(alice: AlicesPast, state: str, point: str) -> None:
    """Killed beside the old archive, or once the register names the new one: run again, no object has the name."""
    await alice.take_to(state)
    await alice.note_money()
    assert len(await alice.where(ALICE)) > 2
    assert await kill_at(alice, point, 1 if state == "verified" else 2) == -signal.SIGKILL
    done = await alice.forget()
    assert await alice.where(ALICE) == []
    assert await alice.where(done.pseudonym)
    assert await alice.violations() == []
    assert await alice.money() == alice.before
    assert store.archived(alice.installed.archive.folder) == [(DAY, xx) for xx in XXS]


async def test_the_rotation_takes_a_day_into_a_bucket(alice: AlicesPast) -> None:
    """Closed, exported, spoilt, exported anew, verified, dropped; a user is exported from there, and forgotten."""
    await alice.take_to("exported")
    bucket = alice.installed.archive.folder
    assert isinstance(bucket, Bucket)
    spoilt = next(one.name for one in bucket.listed("claim"))
    bucket.delete([spoilt])
    await alice.take_to("dropped")
    assert spoilt in {one.name for one in bucket.listed("claim")}
    assert await alice.violations() == []
    told = await document_of(alice)
    assert told["sums"]["adds_up"]
    assert {row["archived"] for row in told["shares"]} == {False, True}
    await alice.forget()
    assert await alice.where(ALICE) == []
