"""A SET whose backups are in a bucket is lost, and comes back with what the wallet has paid since."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.table import main
from client import Hongbao
from objectstore.bucket import Bucket
from tests.faults.stack_fixtures import running_stack
from tests.integration.objects.faulty_front import FaultyFront
from tests.integration.objects.fixtures import bucket, front

__all__ = ["bucket", "front"]
pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]
CONFIG: dict[str, Any] = {"sets": 1, "servers": 1}


async def hongbao(*words: str, data: Path) -> Any:
    ran = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--data", str(data), "--json"])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout.splitlines()[-1])


async def test_a_set_comes_back_from_a_bucket_with_what_was_paid(
    server_folder: Path, bucket: Bucket, front: FaultyFront
) -> None:
    """Claims that were paid after the copy are put back into it; the audit of the SET that is opened again holds."""
    data, place = server_folder / "data", str(bucket)
    async with running_stack(data, **CONFIG) as running, Hongbao(running.stack.gateway_url) as door:
        await running.deposit("sender", 10_000)
        user = {name: door.user(running.access.token(name)) for name in ("sender", "a", "b", "c")}
        envelope = await user["sender"].create(total_fen=1_000, count=3)
        won = (await user["a"].open(envelope)).amount_fen
        assert (await running.settled_audit()).holds
        await hongbao("backup", "take", "set-1", "--folder", place, data=data)
        assert (await user["b"].open(envelope)).result == "opened"
        assert (await running.settled_audit()).holds
        running.stack.kill("postgres-set-1", stay_dead=True)
        shutil.rmtree(data / "postgres" / "set-1")
        words = ("--folder", place, "--into", str(server_folder / "restored"), "--with-paid", "--no-audit")
        restored = await hongbao("backup", "restore", "set-1", *words, data=data)
        assert (restored["put_back"], restored["not_put_back"]) == (1, [])
    assert [one for one in front.seen if one.method == "GET" and one.path.endswith(".tar")]
    shutil.move(restored["path"], data / "postgres" / "set-1")
    async with running_stack(data, **CONFIG) as running, Hongbao(running.stack.gateway_url) as door:
        again = await door.user(running.access.token("a")).open(envelope)
        assert (again.result, again.amount_fen) == ("already_opened", won)
        last = await door.user(running.access.token("c")).open(envelope)
        assert (last.result, last.last) == ("opened", True)
        assert (await running.settled_audit()).holds
