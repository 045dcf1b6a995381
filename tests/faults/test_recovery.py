"""The wallet is lost, or everything is: it comes back from backups and kept files, and every fen with it."""

import asyncio
import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.table import main
from client import NO_PATIENCE, ApiError, Hongbao
from runtime.postgres import connected
from schema import roles
from tests.faults.stack_fixtures import Crowd, Running, running_stack

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]
CONFIG: dict[str, Any] = {"sets": 1, "servers": 1}
KEPT = ("installation.toml", "secrets.json", "topology.json")
"""What an operator keeps of the data folder (docs/production/recovery.md)."""


async def hongbao(*words: str, data: Path, status: int = 0) -> dict[str, Any]:
    """Call a command as an operator does; returns its JSON."""
    done = await asyncio.to_thread(CliRunner().invoke, main, [*words, "--data", str(data), "--json"])
    assert done.exit_code == status, (words, done.output, done.exception)
    return json.loads(done.stdout.splitlines()[-1])


async def balances(running: Running, users: list[str]) -> dict[str, int]:
    async with running.access.wallet() as wallet:
        return {user: await wallet.balance(user) for user in users}


async def life_after_the_copy(running: Running) -> list[str]:
    """People live on what they win: who wins sends an envelope of it, and so on; returns who took part."""
    people = [f"person-{number}" for number in range(6)]
    async with Hongbao(running.stack.gateway_url) as door:
        users = {name: door.user(running.access.token(name)) for name in people}
        for giver, taker in pairwise(people):
            made = await users[giver].create(total_fen=1_000, count=1)
            assert (await users[taker].open(made)).result == "opened"
            async with asyncio.timeout(20):
                while await users[taker].balance_fen() < 1_000:
                    await asyncio.sleep(0.02)
        canceled = await users[people[-1]].create(total_fen=900, count=3)
        assert (await users[people[0]].open(canceled)).result == "opened"
        await users[people[-1]].cancel(canceled)
    return people


async def spend_a_deposit(running: Running) -> list[str]:
    """Money comes in from outside and goes on: the wallet alone has it on record, and the bank."""
    async with running.access.wallet() as wallet:
        await wallet.deposit("bank-1", "late", 500)
    async with Hongbao(running.stack.gateway_url) as door:
        made = await door.user(running.access.token("late")).create(total_fen=500, count=1)
        await door.user(running.access.token("winner")).open(made)
    return ["late", "winner"]


async def serves_again(running: Running) -> None:
    """Resumed, people go on, and the books stay clean."""
    await hongbao("dba", "resume", "set-1", data=running.data)
    await running.deposit("person-0", 1_000)
    await life_after_the_copy(running)
    assert (await running.settled_audit()).holds


async def test_a_lost_wallet_comes_back_with_every_fen(server_folder: Path) -> None:
    """Restored to before creates and credits it has them again, once, in an order in which balances cover them.

    What only a lost deposit covers is named, and made good once the deposit is.
    """
    data, backups = server_folder / "data", str(server_folder / "backups")
    async with running_stack(data, **CONFIG) as running:
        await running.deposit("person-0", 1_000)
        await running.deposit("sender-0", 1_000_000)
        async with Crowd(running, seed=5) as crowd, crowd.busy(people=6, senders=1):
            await crowd.until(20)
        await running.settled_audit()
        await hongbao("backup", "take", "wallet", "--folder", backups, data=data)
        people = [*await life_after_the_copy(running), "sender-0", *(f"user-{one}" for one in range(6))]
        people += await spend_a_deposit(running)
        async with Crowd(running, seed=6) as crowd:
            async with crowd.busy(people=6, senders=1):
                await crowd.until(30)
            await crowd.check()
        before = await running.settled_audit()
        assert before.holds, before.violations
        wanted = await balances(running, people)
    shutil.rmtree(data / "postgres" / "wallet")
    into = server_folder / "restored"
    words = ("backup", "restore", "wallet", "--folder", backups, "--into", str(into), "--no-audit")
    restored = await hongbao(*words, data=data)
    assert restored["seconds"] > 0
    assert restored["base_taken_at"]
    shutil.move(restored["path"], data / "postgres" / "wallet")
    async with running_stack(data, **CONFIG, paused=True) as running:
        await refused_while_paused(running)
        assert not (await running.access.audit()).holds
        seen = await hongbao("recover", "wallet", data=data, status=1)
        assert seen["lost_creates"] >= 6
        assert seen["lost_credits"] >= 6
        assert not seen["repaired"]
        await made_good_but_one(running, seen["lost_creates"])
        await hongbao("deposit", "late", "500", "--order-no", "bank-1", data=data)
        done = await hongbao("recover", "wallet", "--yes", data=data)
        assert (done["creates"], done["credits"], done["not_made"]) == (1, 1, [])
        again = await hongbao("recover", "wallet", "--yes", data=data)
        assert (again["lost_creates"], again["lost_credits"]) == (0, 0)
        after = await running.settled_audit()
        assert after.holds, after.violations
        assert after.sums.claims == before.sums.claims
        assert await balances(running, people) == wanted
        await serves_again(running)
        words = ["recover", "wallet", "--yes", "--data", str(data)]
        served = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert (served.exit_code, "users are served by set-1" in served.output) == (1, True)
        assert (await hongbao("recover", "wallet", "--yes", "--while-served", data=data))["lost_creates"] == 0


async def made_good_but_one(running: Running, lost_creates: int) -> None:
    """All but the create whose deposit was lost as well. The sweeper is set back to where the wallet is.

    As on hosts, no start has done that before.
    """
    async with connected(running.access.set_dsn("set-1", roles.OWNER)) as owner:
        seen_to = await owner.fetchval("UPDATE fund_cursor SET after = after + 1000 RETURNING after")
    left = await hongbao("recover", "wallet", "--yes", data=running.data, status=1)
    assert left["set_back"]["set-1"][0] == seen_to
    assert left["creates"] == lost_creates - 1
    assert [(one["user"], one["fen"]) for one in left["not_made"]] == [("late", 500), ("winner", 500)]
    assert "deposit was lost" in left["not_made"][0]["why"]


async def refused_while_paused(running: Running) -> None:
    """Before the wallet is made good nobody spends what a lost create has taken."""
    async with Hongbao(running.stack.gateway_url, patience=NO_PATIENCE) as door:
        with pytest.raises(ApiError) as refused:
            await door.user(running.access.token("person-0")).create(total_fen=100, count=1)
        assert refused.value.code == "set_paused"


@pytest.mark.long
async def test_a_lost_set_has_again_what_the_wallet_has_paid(server_folder: Path) -> None:
    """Claims that the log had not received come back from the wallet: no share is won twice, what is left goes on."""
    data, backups = server_folder / "data", str(server_folder / "backups")
    async with running_stack(data, **CONFIG) as running, Hongbao(running.stack.gateway_url) as door:
        await running.deposit("sender", 10_000)
        user = {name: door.user(running.access.token(name)) for name in ("sender", "a", "b", "c", "d")}
        shared = await user["sender"].create(total_fen=1_000, count=4)
        ended = await user["sender"].create(total_fen=900, count=3)
        won = (await user["a"].open(shared)).amount_fen
        assert (await running.settled_audit()).holds
        await hongbao("backup", "take", "set-1", "--folder", backups, data=data)
        for name in ("b", "c"):
            assert (await user[name].open(shared)).result == "opened"
        assert (await user["a"].open(ended)).result == "opened"
        await user["sender"].cancel(ended)
        lost = await user["sender"].create(total_fen=500, count=1)
        await user["b"].open(lost)
        assert (await running.settled_audit()).holds
        wanted = await balances(running, list(user))
        running.stack.kill("postgres-set-1", stay_dead=True)
        shutil.rmtree(data / "postgres" / "set-1")
        into = server_folder / "restored"
        words = ("backup", "restore", "set-1", "--folder", backups, "--into", str(into), "--with-paid", "--no-audit")
        restored = await hongbao(*words, data=data)
        assert (restored["put_back"], restored["not_put_back"]) == (4, [])
    shutil.move(restored["path"], data / "postgres" / "set-1")
    async with running_stack(data, **CONFIG, paused=True) as running:
        told = await running.access.audit()
        assert {str(one.subject) for one in told.violations} == {lost.envelope_id}
        await hongbao("dba", "resume", "set-1", data=data)
        async with Hongbao(running.stack.gateway_url) as door:
            again = await door.user(running.access.token("a")).open(shared)
            assert (again.result, again.amount_fen) == ("already_opened", won)
            last = await door.user(running.access.token("d")).open(shared)
            assert (last.result, last.last) == ("opened", True)
            async with asyncio.timeout(20):
                while (await balances(running, ["d"]))["d"] != last.amount_fen:
                    await asyncio.sleep(0.05)
        assert await hongbao("payout", "stuck", data=data) == {"stuck": []}
        assert await balances(running, ["sender", "a", "b", "c"]) == {
            name: fen for name, fen in wanted.items() if name != "d"
        }


@pytest.mark.long
async def test_everything_is_lost_and_comes_back_elsewhere(server_folder: Path) -> None:
    """From backups and three kept files, on a new data folder, with the claims put back that the wallet alone has."""
    data, backups, kept = server_folder / "data", str(server_folder / "backups"), server_folder / "kept"
    async with running_stack(data, **CONFIG) as running, Hongbao(running.stack.gateway_url) as door:
        await running.deposit("sender", 10_000)
        user = {name: door.user(running.access.token(name)) for name in ("sender", "a", "b")}
        shared = await user["sender"].create(total_fen=1_000, count=3)
        ended = await user["sender"].create(total_fen=900, count=3)
        await hongbao("backup", "take", "set-1", "--folder", backups, data=data)
        for name in ("a", "b"):
            assert (await user[name].open(shared)).result == "opened"
        assert (await user["b"].open(ended)).result == "opened"
        await user["sender"].cancel(ended)
        before = await running.settled_audit()
        wanted = await balances(running, list(user))
        await hongbao("backup", "take", "wallet", "--folder", backups, data=data)
        kept.mkdir()
        for name in KEPT:
            shutil.copy2(data / name, kept / name)
    shutil.rmtree(data)
    new = server_folder / "new"
    await brought_back(new, kept, backups, server_folder / "restored")
    async with running_stack(new, **CONFIG, paused=True) as running:
        assert (await hongbao("recover", "wallet", "--yes", data=new))["lost_credits"] == 0
        assert (await hongbao("recover", "set", "set-1", data=new, status=1))["lost_claims"] == 4
        assert (await hongbao("recover", "set", "set-1", "--yes", data=new))["put_back"] == 4
        assert (await hongbao("recover", "set", "set-1", "--yes", data=new))["lost_claims"] == 0
        await running.stack.restart_in_turn()
        after = await running.settled_audit()
        assert after.holds, after.violations
        assert after.sums.claims == before.sums.claims
        assert await balances(running, list(user)) == wanted
        await serves_again(running)


async def brought_back(new: Path, kept: Path, backups: str, restored: Path) -> None:
    """Make a data folder from what was kept, as docs/production/recovery.md says."""
    (new / "postgres").mkdir(parents=True)
    restored.mkdir()
    for folder in (new, new / "postgres", restored):
        folder.chmod(0o711)
    for name in KEPT:
        shutil.copy2(kept / name, new / name)
    for server in ("wallet", "set-1"):
        words = ("backup", "restore", server, "--folder", backups, "--into", str(restored / server), "--no-audit")
        shutil.move((await hongbao(*words, data=new))["path"], new / "postgres" / server)
