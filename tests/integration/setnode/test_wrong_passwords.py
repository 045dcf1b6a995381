"""Five wrong passwords are five, whichever servers count them and whatever becomes of a commit."""

import asyncio
from collections import Counter

import pytest

from setnode.actors.context import FOREIGN
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def town(common_town: Town) -> Town:
    return common_town


async def counted(town: Town, envelope_id: int) -> dict[str, int]:
    rows = await town.rows("SELECT user_id, wrong_tries FROM guest WHERE envelope_id = $1", envelope_id)
    return {row["user_id"]: row["wrong_tries"] for row in rows}


async def test_the_owner_hears_of_tries_that_a_stand_in_counted(town: Town) -> None:
    """A batch of tries alone notifies too: the owner, whose log is old, then refuses the right password."""
    envelope_id = await town.create(1_000, 10, password="sesame")
    owner = town.owner(envelope_id)
    assert (await town.open(envelope_id, "guess"))["tries_left"] == 5
    for _ in range(5):
        await town.open(envelope_id, "guess", password="wrong", node=town.other(envelope_id))
    actor = owner.registry._actors[envelope_id]
    async with asyncio.timeout(5):
        while actor.generation != FOREIGN:
            await asyncio.sleep(0.01)
    answer = await town.open(envelope_id, "guess", password="sesame")
    assert (answer["result"], answer["tries_left"]) == ("wrong_password", 0)
    assert (await town.open(envelope_id, "knows", password="sesame"))["result"] == "opened"


async def test_two_servers_count_each_try_at_a_number_of_its_own(town: Town) -> None:
    """30 wrong passwords of one user at both servers at once: each count is told once, the sixth is not looked at."""
    envelope_id = await town.create(1_000, 10, password="sesame")
    for node in town.nodes:
        await town.open(envelope_id, "guess", node=node)
    answers = await asyncio.gather(
        *(town.open(envelope_id, "guess", password="wrong", node=town.nodes[n % 2]) for n in range(30))
    )
    assert {answer["result"] for answer in answers} == {"wrong_password"}
    left = Counter(answer["tries_left"] for answer in answers)
    assert all(left[count] <= 1 for count in (4, 3, 2, 1)), left
    assert await counted(town, envelope_id) == {"guess": 5}


async def test_a_conflict_over_tries_leaves_the_batch_of_others_alone(town: Town) -> None:
    """An owner who knows nothing of a rival's count: its batch of three envelopes counts and sells each thing once."""
    secret = await town.create(1_000, 10, password="sesame")
    owner = town.owner(secret)
    others = []
    while len(others) < 2:
        one = await town.create(1_000, 10, password="sesame")
        if town.owner(one) is owner:
            others.append(one)
    for one in (secret, *others):
        await town.open(one, "guess")
    await town.scalar(
        "INSERT INTO guest (envelope_id, slot, user_id, wrong_tries, invited) "
        "SELECT envelope_id, slot, 'guess', 2, false FROM envelope WHERE envelope_id = $1",
        secret,
    )
    asked = [("guess", "wrong"), ("winner", "sesame")]
    answers = await asyncio.gather(
        *(town.open(one, user, password=password) for one in (secret, *others) for user, password in asked)
    )
    assert [answer["result"] for answer in answers] == ["wrong_password", "opened"] * 3
    assert [answer["tries_left"] for answer in answers[::2]] == [2, 4, 4]
    assert [await counted(town, one) for one in (secret, *others)] == [{"guess": 3}, {"guess": 1}, {"guess": 1}]
    assert [answer["seq"] for answer in answers[1::2]] == [0, 0, 0]


async def test_a_rivals_claim_does_not_count_the_tries_of_its_batch_twice(town: Town) -> None:
    """The claim beside a wrong try meets another server's: the batch is decided again, the try is counted once."""
    envelope_id = await town.create(1_000, 10, password="sesame")
    owner = town.owner(envelope_id)
    await town.open(envelope_id, "guess")
    await town.open(envelope_id, "rival", password="sesame", node=town.other(envelope_id))
    owner.registry._actors[envelope_id].generation = owner.registry.generation  # as if the news were still on its way
    answers = await asyncio.gather(
        town.open(envelope_id, "guess", password="wrong"), town.open(envelope_id, "winner", password="sesame")
    )
    assert (answers[0]["tries_left"], answers[1]["seq"]) == (4, 1)
    assert await counted(town, envelope_id) == {"guess": 1}


@pytest.mark.parametrize("went_in", [True, False])
async def test_a_try_whose_answer_was_lost_is_counted_once(town: Town, monkeypatch, went_in) -> None:
    """The connection ends after (or before) the commit: the one typing error costs one try."""
    envelope_id = await town.create(1_000, 10, password="sesame")
    queue, lost = town.owner(envelope_id).claim_queue, []
    write = queue.write

    async def loses_the_answer(connection, batch):
        if lost:
            return await write(connection, batch)
        lost.append(batch)
        if went_in:
            await write(connection, batch)
        raise ConnectionResetError("the answer was lost")

    monkeypatch.setattr(queue, "write", loses_the_answer)
    answers = await asyncio.gather(
        town.open(envelope_id, "guess", password="wrong"), town.open(envelope_id, "knows", password="sesame")
    )
    assert lost
    assert (answers[0]["result"], answers[0]["tries_left"]) == ("wrong_password", 4)
    assert answers[1]["result"] == "opened"
    assert await counted(town, envelope_id) == {"guess": 1}
