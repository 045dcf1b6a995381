"""`hongbao migrate` on an installation that runs."""

import asyncio
import json

import asyncpg
from click.testing import CliRunner

from cli.table import main
from installation.finding import find
from schema import roles
from schema.migrate import _HERE, _digest, _files
from tests.integration.gateway.fixtures import RealStack


async def _migrate(stack: RealStack, *words: str) -> tuple[int, dict]:
    told = await asyncio.to_thread(CliRunner().invoke, main, ["migrate", *words, "--json", "--data", str(stack.data)])
    return told.exit_code, json.loads(told.stdout.splitlines()[-1]) if told.stdout.startswith("{") else {}


async def test_the_databases_of_a_running_installation_are_as_they_must_be(stack: RealStack) -> None:
    """Nothing is to do; a migration that a newer release has applied is said, and is no fault; an edited one is."""
    access = find(stack.data)
    for words in ((), ("--check",)):
        code, found = await _migrate(stack, *words)
        assert code == 0
        assert {one["server"] for one in found["databases"]} == set(access.servers())
        assert all(one["holds"] and not one["applied"] and not one["missing"] for one in found["databases"])
    connection = await asyncpg.connect(access.dsn("wallet", roles.OWNER))
    try:
        await connection.execute("INSERT INTO migration (name, sha256) VALUES ('9999_of_tomorrow', '')")
        code, found = await _migrate(stack, "wallet")
        assert code == 0
        assert [one["beyond"] for one in found["databases"]] == [["9999_of_tomorrow"]]
        await connection.execute("UPDATE migration SET sha256 = 'edited' WHERE name LIKE '0001%'")
        code, found = await _migrate(stack, "wallet", "--check")
        assert code == 1
        assert "0001" in found["databases"][0]["error"]
    finally:
        await connection.execute("DELETE FROM migration WHERE name = '9999_of_tomorrow'")
        await connection.execute(
            "UPDATE migration SET sha256 = $1 WHERE name LIKE '0001%'", _digest(_files(_HERE / "wallet")[0])
        )
        await connection.close()
    assert (await _migrate(stack, "--check"))[0] == 0
    assert (await _migrate(stack, "set-9"))[0] == 1
