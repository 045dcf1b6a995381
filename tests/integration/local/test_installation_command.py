"""`hongbao installation` on one that runs."""

import asyncio
import json

from click.testing import CliRunner

from cli.table import main
from tests.integration.gateway.fixtures import RealStack


async def _ask(stack: RealStack, *words: str) -> tuple[int, dict]:
    command = ["installation", *words, "--json", "--data", str(stack.data)]
    told = await asyncio.to_thread(CliRunner().invoke, main, command)
    return told.exit_code, json.loads(told.stdout.splitlines()[-1])


async def test_what_is_shown_has_no_secret(stack: RealStack) -> None:
    """Databases, servers and addresses are there; no password and no key is."""
    code, found = await _ask(stack, "show")
    assert code == 0
    assert set(found["databases"]) == {"wallet", "set-1", "set-2"}
    assert set(found["servers"]) == {"set-1-a", "set-2-a"}
    secrets = json.loads((stack.data / "secrets.json").read_text())
    every = [*secrets["keys"].values(), *(one for role in secrets["postgres"].values() for one in role.values())]
    assert len(every) > 10
    assert [one for one in every if one in json.dumps(found)] == []


async def test_all_of_a_running_installation_is_reached(stack: RealStack) -> None:
    """Every role logs in everywhere, and nothing is another's; a role with another password is named."""
    code, found = await _ask(stack, "check")
    assert (code, found["holds"]) == (0, True), found
    assert {"databases", "parts"} <= {one["check"] for one in found["findings"]}
    path = stack.data / "secrets.json"
    kept = path.read_text()
    changed = json.loads(kept)
    changed["postgres"]["set-2"]["hongbao_events"] = "0" * 48
    try:
        path.write_text(json.dumps(changed))
        code, found = await _ask(stack, "check")
    finally:
        path.write_text(kept)
    assert code == 1
    (wrong,) = [one for one in found["findings"] if one["level"] == "wrong"]
    assert "hongbao_events" in wrong["what"]
