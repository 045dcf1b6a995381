"""A day goes cold under a running stack: over HTTP nothing changes but one word."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from archive.export import export_database
from archive.verify import verify_database
from client import Envelope, calls
from gateway.openapi import document
from ops.story import story
from schema import roles
from sharding.ids import day_of
from tests import forks
from tests.faults.stack_fixtures import Running, running_stack
from tests.integration.archive.fixtures import detach, drop, move_on
from tests.integration.gateway.fixtures import Client, client_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]

LISTS = (calls.wallet(), calls.entries(), calls.envelopes("sent"), calls.envelopes("received"))
USERS = ("ann", "bob", "carol")


@pytest.fixture
async def running(server_folder: Path) -> AsyncIterator[Running]:
    async with running_stack(server_folder / "data", sets=1, servers=1, notify=lambda _: None) as one:
        yield one


async def seen(client: Client, envelopes: list[Envelope]) -> dict[tuple[str, str], Any]:
    """What everybody sees of everything, by bearer and share token."""
    found: dict[tuple[str, str], Any] = {}
    for user in USERS:
        for one in envelopes:
            path = f"/v1/envelopes/{one.envelope_id}"
            for token in ("", f"?share_token={one.share_token}"):
                status, _, told = await client.call("GET", path + token, user)
                found[user, path + token] = told if status == 200 else (status, told["code"])
    return found


async def lists(client: Client) -> dict[tuple[str, str], Any]:
    return {(user, one.path): (await client.send(one, user))[2] for user in USERS for one in LISTS}


async def test_nothing_changes_but_one_word(running: Running) -> None:  # noqa: PLR0915 - one life of one day
    """GET has `archived` more, from tables and archive, also after a restart; lists are the same; open: expired."""
    async with client_of(running.access.gateway_url, running.access.token) as client:
        await running.deposit("ann", 10_000)
        sold = await client.create("ann", kind="lucky", total_fen=500, count=2, greeting="恭喜发财")
        for user in ("bob", "carol"):
            assert (await client.open(user, sold))["result"] == "opened"
        named = await client.create("ann", kind="equal", total_fen=400, count=2, to=["bob", "carol"])
        await client.open("bob", named)
        spoken = await client.create("ann", kind="lucky", total_fen=300, count=3, password="年年有余")
        await client.open("carol", spoken, password="年年有余")
        for one in (named, spoken):
            assert (await client.send(calls.cancel(one), "ann"))[0] == 200
        envelopes = [sold, named, spoken]
        sums = (await running.settled_audit()).sums
        before, listed = await seen(client, envelopes), await lists(client)
        cold = {key: {**one, "archived": True} if isinstance(one, dict) else one for key, one in before.items()}
        assert (403, "not_invited") in cold.values()

        day = day_of(int(sold.envelope_id))
        owner = await asyncpg.connect(running.access.set_dsn("set-1", roles.OWNER))
        await owner.execute("DELETE FROM due")  # final, and soon to be forgotten by expiry itself
        told = [await story(running.access, one.envelope_id) for one in envelopes]
        told = [same_story(one, "hot") for one in told]
        await detach(owner, day, range(4))
        assert [same_story(await story(running.access, one["envelope_id"]), "cold") for one in told] == told
        async with asyncio.timeout(20):
            while await seen(client, envelopes) != cold:
                await asyncio.sleep(0.2)
        archive = running.access.archive()
        for xx in range(4):
            made = await export_database(owner, archive.folder, archive.key, xx=xx, day=day, proof=None)
            await move_on(owner, day, xx, "exported", made.digest)
            await verify_database(owner, archive.folder, archive.key, xx=xx, day=day)
            await drop(owner, day, xx)
        await owner.close()
        assert [same_story(await story(running.access, one["envelope_id"]), "archive") for one in told] == told
        running.stack.kill("set-1-a")
        away = archive.folder.rename(archive.folder.with_name("away"))
        path = f"/v1/envelopes/{sold.envelope_id}"
        async with asyncio.timeout(30):
            while (await client.call("GET", path, "ann"))[2].get("code") != "archive_unavailable":
                await asyncio.sleep(0.2)
        status, headers, told = await client.call("GET", path, "ann")
        assert (status, told["retry"], "Retry-After" in headers) == (503, "later", True)
        away.rename(archive.folder)
        assert await seen(client, envelopes) == cold
        assert await lists(client) == listed
        for one in envelopes:
            for user in USERS:
                assert await client.open(user, one) == {"result": "expired"}
                assert await client.grab(user, one) == {"result": "expired"}
            repeat = await client.send(calls.cancel(one), "ann")
            if one is sold:
                assert (repeat[0], repeat[2]["code"]) == (409, "already_final")
            else:
                assert repeat[2] == cold["ann", f"/v1/envelopes/{one.envelope_id}"]
        report = await running.access.audit()
        assert (report.violations, report.sums) == ([], sums)
        await the_command_tells_of_proofs(running)


def same_story(one: dict[str, Any], place: str) -> dict[str, Any]:
    """An envelope's story for operators is the same wherever its rows are, but for the place and the time it took."""
    assert one["place"] == place
    assert one["verdict"]["holds"]
    return {**one, "place": "hot", "verdict": {**one["verdict"], "seconds": 0}}


async def the_command_tells_of_proofs(running: Running) -> None:
    """`hongbao audit` reads a dropped day once and says so; `--full` reads it again; the file is the owner's alone."""
    again = await forks.hongbao("audit", "--data", str(running.data))
    assert (again.status, "not read again: unchanged since an audit" in again.out) == (0, True)
    full = await forks.hongbao("audit", "--full", "--json", "--data", str(running.data))
    told = json.loads(full.out)
    assert (full.status, told["parts_by_digest"], told["violation_count"]) == (0, 0, 0)
    path = running.data / "audit-proofs.json"
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_document_knows_the_word() -> None:
    """`archived` is a member of a detail, never false and never required."""
    detail = document()["components"]["schemas"]["Detail"]
    assert detail["properties"]["archived"]["const"] is True
    assert "archived" not in detail["required"]
