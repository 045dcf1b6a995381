"""The clock of a real installation is never moved."""

import json

import aiohttp
import asyncpg

from installation.finding import find
from schema import roles
from tests import forks
from tests.integration.gateway.fixtures import RealStack


async def test_a_real_installation_is_not_moved(stack: RealStack) -> None:
    """`clock +TIME` says so and ends with status 1; no file, process or database knows of a clock."""
    for words in (("+24h",), ("+24h", "--json"), ("+24h", "--wait", "0")):
        ended = await forks.hongbao("clock", *words, "--data", str(stack.data))
        assert (ended.status, ended.out) == (1, "")
        assert "real installation" in ended.err
    shown = await forks.hongbao("clock", "--data", str(stack.data))
    assert (shown.status, shown.err) == (0, "")
    assert ", as on this machine; this is no sandbox" in shown.out
    told = await forks.hongbao("clock", "--json", "--data", str(stack.data))
    assert json.loads(told.out)["ahead_s"] == 0
    async with aiohttp.ClientSession() as session, session.get(f"{stack.gateway_url}/readyz") as answer:
        assert set(await answer.json()) == {"status", "sets_away"}
    access = find(stack.data)
    assert not (stack.data / "sandbox-clock").exists()
    assert not list(stack.data.glob("clock*"))
    for name in access.servers():
        connection = await asyncpg.connect(access.dsn(name, roles.OWNER))
        try:
            assert await connection.fetchval("SELECT to_regprocedure('public.sandbox_now()')") is None
        finally:
            await connection.close()
