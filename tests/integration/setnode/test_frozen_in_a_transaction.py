"""A server that is frozen between its claims and their COMMIT, or whose host is lost there, stops no other."""

import asyncio

import asyncpg
import pytest

from envelope.claim_log import ClaimLog
from envelope.decide import open_share
from errors import Unavailable
from setnode.actors.batch import ClaimBatch
from setnode.commit.store import _tries_and_claims
from tests.integration.setnode.fixtures import Town, common_town, module_databases, shared_town

__all__ = ["common_town", "module_databases", "shared_town"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_next_server_has_its_turn(common_town: Town) -> None:
    """Its rows would hold the unique keys until the transaction ends; Postgres ends it."""
    town = common_town
    envelope_id = await town.create(1_000, 10)
    node = town.owner(envelope_id)
    log = ClaimLog(node.registry.peek(envelope_id).log.terms)
    batch = ClaimBatch(node.clock.now_ms())
    batch.add_open(log, "ghost", open_share(log, "ghost", token_ok=True, password_mac=None, now_ms=batch.at_ms))
    batch.actors.append(None)
    frozen = await asyncpg.connect(town.set_dsn, server_settings=dict(node._sessions.claims[0]._settings))
    await frozen.execute("BEGIN")
    await _tries_and_claims(frozen, batch, frozenset(), "set-1-x")
    async with asyncio.timeout(30):
        # A client repeats what is busy, or has no answer, as the gateway says.
        while True:
            try:
                answer = await town.open(envelope_id, "bob")
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                break
    assert answer["result"] == "opened"
    assert await town.scalar("SELECT count(*) FROM claim WHERE user_id = 'ghost'") == 0
    frozen.terminate()
