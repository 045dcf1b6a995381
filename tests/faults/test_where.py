"""A person with an envelope's ID looks at its rows, as the README says, and cannot change them by accident."""

import json
from pathlib import Path

import pytest

from schema import names
from schema.names import TableKind
from sharding.ids import day_of, slot_of
from tests import forks
from tests.faults.stack_fixtures import Crowd, Running, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


async def hongbao(running: Running, *words: str) -> forks.Ended:
    return await forks.hongbao(*words, "--data", str(running.data))


async def test_an_envelope_is_found_by_its_id_and_looked_at(server_folder: Path) -> None:
    """`dba where` names SET, leaf, day and escrow; `psql` shows the row and writes with --write only."""
    async with running_stack(server_folder / "data", sets=1, servers=1) as running:
        await running.deposit("host", 10_000)
        async with Crowd(running, seed=1) as crowd:
            text = (await crowd.create("host", kind="equal", total_fen=200, count=2)).envelope_id
        leaf = names.leaf(TableKind.ENVELOPE, slot_of(int(text)), day_of(int(text)))
        told = json.loads((await hongbao(running, "dba", "where", text, "--json")).out)
        assert (told["set"], told["state"], told["found"], told["tables"][0]) == ("set-1", "hot", True, leaf)
        assert told["escrow"] == f"escrow:{text[:6]}:{text[-3:]}"
        assert (await hongbao(running, "dba", "where", text)).out.count(leaf.split(".")[0]) >= 3
        other = f"{text[:-8]}99999{text[-3:]}"
        assert json.loads((await hongbao(running, "dba", "where", other, "--json")).out)["found"] is False
        gone = json.loads((await hongbao(running, "dba", "where", f"100101{text[6:]}", "--json")).out)
        assert (gone["state"], gone["found"], gone["tables"]) == ("no tables", None, [])
        wrong = await hongbao(running, "dba", "where", "7")
        assert (wrong.status, wrong.err.count("\n")) == (1, 1)

        quiet = ("-X", "-A", "-t", "-c")
        look = await hongbao(running, "psql", "set-1", *quiet, f"SELECT sender FROM {leaf} WHERE envelope_id = {text}")
        assert (look.status, look.out) == (0, "host\n"), look.err
        edit = "UPDATE fund_cursor SET after = after"
        refused = await hongbao(running, "psql", "set-1", *quiet, edit)
        assert refused.status == 1
        assert "read-only transaction" in refused.err
        assert (await hongbao(running, "psql", "set-1", "--write", *quiet, edit)).out == "UPDATE 1\n"
        look = await hongbao(running, "psql", "wallet", *quiet, "SELECT count(*) > 0 FROM transfer")
        assert look.out == "t\n", look.err
        nobody = await hongbao(running, "psql", "set-7", *quiet, "SELECT 1")
        assert (nobody.status, "set-7" in nobody.err) == (1, True)
