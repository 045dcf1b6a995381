"""A sandbox: tomorrow comes when somebody says so, with everything that a day brings, and the books stay clean."""

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
import pytest_asyncio

from client import NO_PATIENCE, ApiError, Envelope, Hongbao, TryLater, User
from errors import Refused
from installation.access import Access
from installation.finding import find
from local.clock_bounds import LATEST
from local.config import StackConfig
from local.stack import Stack
from machine.account import Account
from runtime.clock import to_ms
from runtime.sandbox_clock import SandboxClock
from schema import roles
from tests import forks
from tests.conftest import _passable_folder
from tests.handbook_site import ROOT
from tests.markdown_blocks import DOCS, blocks

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

PAGE = DOCS / "apps/sandbox.md"
HERE = str(Path(__file__).relative_to(ROOT))
ADDRESS = "http://127.0.0.1:8080"


class Sandbox:
    """A sandbox that runs, and can be started again; people who use it over HTTP, each call with a new token."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._exits = contextlib.AsyncExitStack()

    async def start(self, **config: Any) -> None:
        env = {"HONGBAO_WINS_PER_DAY": "1"}
        given = {"sets": 1, "servers": 1, "slots": 20, "ahead_days": 1, "sandbox": True, "env": env, **config}
        self.stack = Stack(StackConfig(data=self.data, port=0, notify=lambda _: None, **given))
        self.url = (await self._exits.enter_async_context(self.stack)).gateway_url
        self.session = await self._exits.enter_async_context(aiohttp.ClientSession())
        self.hongbao = await self._exits.enter_async_context(Hongbao(self.url, patience=NO_PATIENCE))

    async def stop(self) -> None:
        await self._exits.aclose()

    @property
    def access(self) -> Access:
        return find(self.data)

    async def clock(self, *words: str) -> dict[str, Any]:
        ended = await forks.hongbao("clock", *words, "--json", "--data", str(self.data))
        assert ended.status == 0, ended
        told: dict[str, Any] = json.loads(ended.out)
        return told

    async def deposit(self, user: str, fen: int) -> None:
        async with self.access.wallet() as wallet:
            await wallet.deposit(self.access.order_no(), user, fen)

    async def call(
        self, method: str, path: str, user: str, body: Any = None, token: str = "", **headers: str
    ) -> tuple[int, Any]:
        headers["Authorization"] = f"Bearer {token or self.access.token(user)}"
        async with self.session.request(method, f"{self.url}/v1/{path}", json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    def user(self, name: str) -> User:
        return self.hongbao.user(self.access.token(name))

    async def create(self, user: str, opens_at: datetime | None = None) -> Envelope:
        return await self.user(user).create(kind="equal", total_fen=300, count=3, opens_at=opens_at)

    async def open(self, user: str, envelope: Envelope) -> str:
        """Return the result, or the code with which the open is refused."""
        try:
            return str((await self.user(user).open(envelope)).result)
        except ApiError as refused:
            return refused.code

    async def balance(self, user: str) -> int:
        async with asyncio.timeout(30):  # a gateway may just be finding the wallet again
            while True:
                try:
                    return await self.user(user).balance_fen()
                except TryLater:
                    await asyncio.sleep(0.1)

    async def audit_is_clean(self) -> bool:
        ended = await forks.hongbao("audit", "--json", "--data", str(self.data))
        report = json.loads(ended.out)
        return ended.status == 0 and report["holds"] and report["in_flight"] == 0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(account: Account) -> AsyncIterator[Sandbox]:
    """One sandbox for the module; what its tests do holds at whatever time the others have left it."""
    with _passable_folder(account) as folder:
        one = Sandbox(folder / "data")
        await one.start()
        try:
            yield one
        finally:
            await one.stop()


def day_of(envelope: Envelope) -> str:
    return envelope.envelope_id[:6]


async def test_tomorrow_comes_at_once(sandbox: Sandbox) -> None:
    """After `clock +24h` what was left is back to the fen, what opens tomorrow opens, the new day has its own IDs."""
    await sandbox.deposit("alice", 10_000)
    before, began = await sandbox.clock(), sandbox.access.clock.now()
    lapsing = await sandbox.create("alice")
    tomorrow = began + timedelta(hours=20)
    scheduled = await sandbox.create("alice", opens_at=tomorrow)
    assert await sandbox.open("bob", scheduled) == "not_started"
    assert await sandbox.open("bob", lapsing) == "opened"
    assert await sandbox.open("carol", scheduled) == "not_started"
    assert await sandbox.balance("alice") == 10_000 - 600
    old_token = sandbox.access.token("alice")
    # Used once, so that the gateway has it among those it has verified.
    assert (await sandbox.call("GET", "me/wallet", "alice", token=old_token))[0] == 200

    told = await sandbox.clock("+24h")

    assert told["done"]
    assert told["ahead_s"] == before["ahead_s"] + 86_400
    today = date.fromisoformat(before["business_date"])
    assert told["business_date"] in {str(today + timedelta(days=one)) for one in (1, 2)}  # midnight may pass meanwhile
    # 100 of the 300 were won, 200 are back, and nothing else has moved: on return, not some time after it.
    assert await sandbox.balance("alice") == 10_000 - 600 + 200
    assert await sandbox.balance("bob") == 100
    assert await sandbox.open("dave", lapsing) == "expired"
    assert await sandbox.open("carol", scheduled) == "opened"
    new = await sandbox.create("alice")
    assert day_of(new) == f"{sandbox.access.today():%y%m%d}"
    assert day_of(new) > day_of(lapsing)
    status, refused = await sandbox.call("GET", "me/wallet", "alice", token=old_token)
    assert (status, refused["code"]) == (401, "token_expired")
    assert "This sandbox goes by a clock of its own, which is at " in refused["detail"]
    assert await sandbox.audit_is_clean()


async def test_the_tables_of_a_new_day_are_there_before_it(sandbox: Sandbox) -> None:
    """A command that waits for nothing leaves no SET without tables of the day that it has brought."""
    for by in ("+1d", "+9d"):
        ended = await forks.hongbao("clock", by, "--wait", "0", "--json", "--data", str(sandbox.data))
        assert json.loads(ended.out)["left"]["without_tables"] == []


async def test_what_users_are_shown_is_dated_by_the_sandbox(sandbox: Sandbox) -> None:
    """Envelopes, shares and entries of a wallet, which two databases hold, bear the sandbox's time within seconds."""
    await sandbox.deposit("erin", 1_000)
    await sandbox.clock("+3d")
    begun = sandbox.access.clock.now() - timedelta(seconds=5)
    made = await sandbox.create("erin")
    assert await sandbox.open("judy", made) == "opened"
    _, entries = await sandbox.call("GET", "me/wallet/entries", "erin")
    _, detail = await sandbox.call("GET", f"envelopes/{made.envelope_id}", "erin")
    for shown in (made.created_at.isoformat(), entries["items"][0]["at"], detail["claims"][0]["claimed_at"]):
        assert begun <= datetime.fromisoformat(shown) <= begun + timedelta(seconds=30)


async def test_daily_limits_begin_anew(sandbox: Sandbox) -> None:
    """Who has won all shares of a day is refused until the clock is moved to the next one."""
    await sandbox.deposit("frank", 1_000)
    first, second = await sandbox.create("frank"), await sandbox.create("frank")
    # Not at the edge of a day: what is won before midnight does not count after it.
    await sandbox.clock("+1m")
    day = sandbox.access.today()
    assert await sandbox.open("grace", first) == "opened"
    refused = await sandbox.open("grace", second)
    assert refused == "daily_wins_reached" or sandbox.access.today() > day
    await sandbox.clock("+24h")
    third = await sandbox.create("frank")
    assert await sandbox.open("grace", third) == "opened"


async def test_a_month_later_old_days_have_made_room(sandbox: Sandbox) -> None:
    """Table names recur every month: on return the days in the way are out, by proof, and a create works at once."""
    await sandbox.deposit("heidi", 1_000)
    old = await sandbox.create("heidi")
    today = sandbox.access.today()
    later = next(days for days in range(28, 70) if (today + timedelta(days=days)).day == today.day)
    told = await sandbox.clock(f"+{later}d")
    assert told["done"], told
    assert await sandbox.balance("heidi") == 1_000
    new = await sandbox.create("heidi")
    assert day_of(new)[4:] == day_of(old)[4:]
    assert await sandbox.audit_is_clean()


async def test_what_is_not_done_is_said(sandbox: Sandbox) -> None:
    """While the wallet is away a refund is on its way: status 1, and it is counted; it is no fault to the audit."""
    await sandbox.clock("+3d")  # an age by the databases' own clock would be far below zero
    await sandbox.deposit("laowang", 1_000)
    await sandbox.create("laowang")
    sandbox.stack.kill("wallet", stay_dead=True)
    short = ("--wait", "0.2", "--json", "--data", str(sandbox.data))
    ended = await forks.hongbao("clock", "+24h", *short)
    async with asyncio.timeout(30):
        while (left := json.loads(ended.out)["left"])["envelopes"]:
            assert ended.status == 1
            ended = await forks.hongbao("clock", "+1s", *short)
    assert (ended.status, json.loads(ended.out)["done"]) == (1, False)
    report = await sandbox.access.audit()
    # Envelopes of other tests may have lapsed with it.
    assert (report.holds, report.sums.in_flight) == (True, left["payouts"]), report.violations
    assert left["payouts"] >= 1
    await sandbox.stack.restart("wallet")
    assert (await sandbox.clock("+1m"))["done"]
    assert await sandbox.balance("laowang") == 1_000


async def test_it_is_seen_that_it_is_a_sandbox(sandbox: Sandbox) -> None:
    """The page is told to show it; a gateway's `/readyz` and `status` tell the time there."""
    async with sandbox.session.get(sandbox.url, headers={"Accept": "text/html"}) as page:
        assert '<meta name="hongbao-sandbox" content="yes">' in await page.text()
    async with sandbox.session.get(f"{sandbox.url}/readyz") as answer:
        told = datetime.fromisoformat((await answer.json())["sandbox_now"])
    status = json.loads((await forks.hongbao("status", "--json", "--data", str(sandbox.data))).out)
    for there in (told, datetime.fromisoformat(status["sandbox_now"])):
        assert abs(there - sandbox.access.clock.now()) < timedelta(seconds=30)


async def test_a_switch_ends_by_the_clock_of_the_sandbox(sandbox: Sandbox) -> None:
    """What is closed for two days is open again after a move by three, for commands and for users."""
    data = ("--data", str(sandbox.data))
    assert (await forks.hongbao("switch", "on", "lists", "--reason", "a test", "--for", "2d", *data)).status == 0
    assert len(json.loads((await forks.hongbao("switch", "list", "--json", *data)).out)["switches"]) == 1
    await sandbox.clock("+3d")
    assert json.loads((await forks.hongbao("switch", "list", "--json", *data)).out) == {"switches": []}
    async with asyncio.timeout(30):  # a gateway looks at its switches once a second
        while (await sandbox.call("GET", "me/wallet/entries", "judy"))[0] == 503:
            await asyncio.sleep(0.1)


async def test_a_move_that_cannot_be_made_moves_nothing(sandbox: Sandbox) -> None:
    """With a database away the command says so, and neither the processes' clock nor another database's has moved."""
    ahead_s = (await sandbox.clock())["ahead_s"]
    sandbox.stack.kill("postgres-set-1", stay_dead=True)
    ended = await forks.hongbao("clock", "+1h", "--data", str(sandbox.data))
    assert ended.status == 1
    assert "Traceback" not in ended.err
    await sandbox.stack.restart("postgres-set-1")
    assert (await sandbox.clock())["ahead_s"] == ahead_s
    for name in sandbox.access.servers():
        connection = await asyncpg.connect(sandbox.access.dsn(name, roles.OWNER))
        try:
            assert await connection.fetchval("SELECT sandbox_now() - now()") == timedelta(seconds=ahead_s)
        finally:
            await connection.close()


async def test_the_page_for_app_developers(sandbox: Sandbox, tmp_path: Path) -> None:
    """Its commands and its functions, as a reader types them, do what it says."""
    commands = [one.code for one in blocks(PAGE) if one.language == "sh" and one.run_by == HERE]
    functions = [one.code for one in blocks(PAGE) if one.language == "python" and one.run_by == HERE]
    (tmp_path / "run").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m cli "$@"\n')
    (tmp_path / "run").chmod(0o700 | stat.S_IXUSR)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "HONGBAO_DATA": str(sandbox.data),
    }
    ahead_s, balance_fen = (await sandbox.clock())["ahead_s"], await sandbox.balance("alice")
    assert all(ADDRESS in one for one in commands)
    typed = "\n".join(commands).replace(ADDRESS, sandbox.url)
    program = "\n".join((*functions, "moved = move_clock('+90m')", f"ahead = now({sandbox.url!r}) - datetime.now(UTC)"))
    program += "\nprint('\\n', ahead.total_seconds(), '\\n', moved['ahead_s'])\n"
    done = await asyncio.to_thread(
        subprocess.run, ["sh", "-eu", "-c", f'{typed}\nexec {sys.executable} -c "$1"', "sh", program],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f'"balance_fen":{balance_fen + 1000}}}' in done.stdout
    assert "what became due is done" in done.stdout
    by_gateway, by_command = (float(one) for one in done.stdout.splitlines()[-2:])
    assert by_command == ahead_s + 86_400 + 5_400
    assert by_gateway == pytest.approx(by_command, abs=30)


@pytest.mark.parametrize("words", [("-1h",), ("+0h",), ("+abc",), ("+",), ("+401d",), ("24h",)])
async def test_what_is_no_move_moves_nothing(sandbox: Sandbox, words: tuple[str, ...]) -> None:
    """A sentence on standard error, a status that is not 0, and the clock where it was."""
    ahead_s = (await sandbox.clock())["ahead_s"]
    ended = await forks.hongbao("clock", *words, "--data", str(sandbox.data))
    assert ended.status != 0
    assert words[0] in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err
    assert (await sandbox.clock())["ahead_s"] == ahead_s


async def test_it_is_started_again_in_its_own_time_and_never_as_a_real_one(sandbox: Sandbox) -> None:
    """The offset outlives a restart, for processes and databases; without --sandbox the folder is refused."""
    await sandbox.clock("+1d")
    ahead_s = (await sandbox.clock())["ahead_s"]
    await sandbox.stop()
    with pytest.raises(Refused) as refused:
        await sandbox.start(sandbox=False)
    assert refused.value.code == "is_sandbox"
    ended = await forks.hongbao("clock", "+1h", "--data", str(sandbox.data))
    assert ended.status == 1
    assert "start it with ./run --sandbox" in ended.err
    await sandbox.start()
    assert (await sandbox.clock())["ahead_s"] == ahead_s
    await sandbox.deposit("ivan", 1_000)
    made = await sandbox.create("ivan")
    assert made.created_at - datetime.now(UTC) > timedelta(seconds=ahead_s - 60)
    _, entries = await sandbox.call("GET", "me/wallet/entries", "ivan")
    assert datetime.fromisoformat(entries["items"][0]["at"]) - datetime.now(UTC) > timedelta(seconds=ahead_s - 60)
    assert await sandbox.audit_is_clean()


async def test_a_sandbox_works_until_ids_end_and_goes_no_further(sandbox: Sandbox) -> None:
    """On its last day envelopes are made; a move beyond it is refused, and the clock stays where it was."""
    await sandbox.stop()
    clock = SandboxClock(sandbox.data / "sandbox-clock", writable=True)
    clock.set_ahead(clock.ahead_ms + to_ms(LATEST) - clock.now_ms() - 3_600_000)
    await sandbox.start()
    assert (await sandbox.clock("+1m"))["done"]
    await sandbox.deposit("baba", 1_000)
    assert day_of(await sandbox.create("baba"))[:2] == f"{LATEST:%y}"
    before = (await sandbox.clock())["ahead_s"]
    ended = await forks.hongbao("clock", "+1d", "--data", str(sandbox.data))
    assert ended.status == 1
    assert "IDs of envelopes hold no year after" in ended.err
    assert (await sandbox.clock())["ahead_s"] == before
    assert await sandbox.audit_is_clean()
