"""A user is forgotten: the name stands nowhere any more, and everything else stands where it stood."""

import pytest

from tests.integration.users.fixtures import ALICE, AlicesPast, past_of_alice

__all__ = ["past_of_alice"]


@pytest.mark.parametrize("state", ["hot", "closed", "detached", "exported", "verified", "dropped"])
async def test_the_name_stands_nowhere_and_the_audit_is_clean(past_of_alice: AlicesPast, state: str) -> None:
    """Whatever became of a day: no text of any table, and no file, has the name; no fen and no order number moved."""
    one = past_of_alice
    await one.take_to(state)
    assert await one.violations() == []
    assert len(await one.where(ALICE)) > 2
    await one.note_money()
    done = await one.forget()
    assert await one.where(ALICE) == []
    assert await one.violations() == []
    assert await one.money() == one.before
    assert done.anew == 0
    assert done.words == []
    assert await one.where(done.pseudonym), "the pseudonym stands in its place"
