"""What the operators' port answers to whom, and what an action does, also when it comes twice or a SET is away."""

import asyncio
import contextlib
import errno
import re
import shutil
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import msgspec
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from installation import data_folder, inventory
from installation.finding import find
from installation.keys import Secrets
from machine.account import Account
from ops.federation import Federation
from ops.limits import EVERY_S, WATCHED_S
from ops.routes import Routes
from ops.service import OpsSettings, serving
from ops.service import Running as Ops
from runtime import postgres
from schema import jobs, roles
from sharding.ids import first_id
from sharding.topology import load
from switches.file import beside
from switches.file import load as load_switches
from tests.conftest import _passable_folder
from tests.faults.stack_fixtures import Crowd, Running, running_stack

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
KEY, VIEW_KEY, METRICS_KEY = "operator" * 8, "viewers!" * 8, "metrics!" * 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(account: Account) -> AsyncIterator[Running]:
    with _passable_folder(account) as folder:
        async with running_stack(folder / "data", servers=1, notify=lambda _: None) as one:
            yield one


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ops(stack: Running) -> AsyncIterator[Ops]:
    settings = OpsSettings(
        listen="127.0.0.1:0", data=str(stack.data), ops_key=KEY, ops_view_key=VIEW_KEY, metrics_key=METRICS_KEY
    )
    async with serving(settings) as one:
        yield one


Call = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="module")
async def call(ops: Ops) -> AsyncIterator[Call]:
    """What calls the port, for (status, JSON) as its answer."""
    async with aiohttp.ClientSession() as session:

        async def one(method: str, path: str, body: Any = None, key: str = "", **headers: str) -> tuple[int, Any]:
            if key:
                headers["Authorization"] = f"Bearer {key}"
            async with session.request(method, ops.url + path, json=body, headers=headers) as answer:
                return answer.status, await answer.json(content_type=None)

        yield one


def action(do: str, target: str, **more: Any) -> dict[str, Any]:
    return {"id": uuid.uuid4().hex, "do": do, "target": target, "confirm": target, "reason": "a test", **more}


def paths() -> list[tuple[str, str]]:
    """Every path of the API as (method, example)."""
    app = Routes(*[None] * 8).app()  # type: ignore[arg-type]
    found = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    return sorted((method, re.sub(r"{\w+}", "x", path)) for method, path in found if path.startswith("/ops/api/"))


async def test_nothing_is_served_without_a_key(call: Call, stack: Running) -> None:
    """Without a key, and with a wrong one, every path of the API is 401 with a sentence, and so are metrics."""
    version = stack.access.topology().version
    api = [(method, path.removeprefix("/ops/")) for method, path in paths() if not path.endswith(("login", "logout"))]
    assert len(api) >= 9
    for method, path in [*api, ("GET", "metrics")]:
        for headers in ({}, {"key": "k" * 64}, {"Authorization": "Basic b3BzOm9wcw=="}, {"X-Ops-Proof": "0" * 64}):
            status, told = await call(method, path, action("pause", "set-1") if method == "POST" else None, **headers)
            assert (status, told["status"]) == (401, 401), path
            assert len(told["detail"]) > 20
    status, told = await call("POST", "api/login", {"key": "nothing of ours"})
    assert (status, told["code"]) == (401, "key_wrong")
    assert stack.access.topology().version == version


async def test_a_viewer_changes_nothing(call: Call, stack: Running) -> None:
    """The viewer's key shows all there is; every action, and the audit, is 403 with it."""
    before = stack.access.topology()
    for path in ("api/live", "api/session", "api/actions", "api/audit", "api/lists/databases", "api/lists/hot"):
        assert (await call("GET", path, key=VIEW_KEY))[0] == 200, path
    for do in ("pause", "drain", "switch_on"):
        status, told = await call("POST", "api/actions", action(do, "set-1"), key=VIEW_KEY)
        assert (status, told["code"]) == (403, "operator_key_needed")
    assert (await call("POST", "api/audit", {}, key=VIEW_KEY))[0] == 403
    assert (stack.access.topology(), load_switches(beside(stack.access.topology_path))) == (before, [])


async def test_a_session_is_a_cookie_and_a_proof(ops: Ops) -> None:
    """A page logs in once; neither its cookie nor its proof is worth anything alone, to another page, or bent."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.post(f"{ops.url}api/login", json={"key": KEY, "name": "Mei"}) as answer:
            told = await answer.json()
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Path=" not in cookie  # below any prefix: a browser takes the folder of the request
        assert KEY not in cookie + told["proof"]

        async def status(**headers: str) -> int:
            async with session.get(f"{ops.url}api/session", headers=headers) as answer:
                return answer.status

        name, _, value = cookie.partition(";")[0].partition("=")
        assert await status(**{"X-Ops-Proof": told["proof"]}) == 200
        assert await status() == 401
        assert await status(**{"X-Ops-Proof": value.rpartition(".")[2]}) == 401
        for site in ("cross-site", "same-site"):
            assert await status(**{"X-Ops-Proof": told["proof"], "Sec-Fetch-Site": site}) == 403
        jar.clear()
        assert await status(**{"X-Ops-Proof": told["proof"]}) == 401
        bent = f"{name}={value[:-1]}{'0' if value[-1] != '0' else '1'}"
        assert await status(**{"X-Ops-Proof": told["proof"], "Cookie": bent}) == 401
        assert await status(**{"X-Ops-Proof": told["proof"], "Cookie": f"{name}={value}"}) == 200


async def test_an_action_that_arrives_twice_is_done_once(call: Call, stack: Running) -> None:
    """Twice at the same time, and once more after another action has undone it: it is done once, all hear the same."""
    version = stack.access.topology().version
    first = action("pause", "set-1")
    told = await asyncio.gather(*(call("POST", "api/actions", first, key=KEY) for _ in range(3)))
    assert [status for status, _ in told] == [200] * 3
    assert told[0] == told[1] == told[2]
    assert told[0][1]["changed"] is True
    assert told[0][1]["followed"] is True
    assert stack.access.topology().version == version + 1
    assert (await call("POST", "api/actions", action("pause", "set-1"), key=KEY))[1]["changed"] is False
    await call("POST", "api/actions", action("resume", "set-1"), key=KEY)
    assert await call("POST", "api/actions", first, key=KEY) == told[0]
    assert not stack.access.topology().sets[0].paused
    status, refused = await call("POST", "api/actions", {**first, "target": "set-2", "confirm": "set-2"}, key=KEY)
    assert (status, refused["code"]) == (409, "action_id_reused")
    done = [one["do"] for one in (await call("GET", "api/actions", key=VIEW_KEY))[1]["actions"]]
    assert done[:3] == ["resume", "pause", "pause"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"confirm": "set-2"}, 422, "confirmation_missing"),
        ({"reason": "  "}, 422, "reason_missing"),
        ({"reason": "two\nlines"}, 422, "reason_missing"),
        ({"target": "set-9", "confirm": "set-9"}, 422, "unknown_set"),
        ({"do": "drain", "target": "set-1-z", "confirm": "set-1-z"}, 422, "unknown_server"),
        ({"do": "drain", "target": "set-1-a", "confirm": "set-1-a"}, 422, "topology_invalid"),
        ({"do": "switch_on", "target": "opens", "confirm": "opens"}, 422, "switch_invalid"),
        ({"do": "switch_on", "target": "refunds", "confirm": "refunds"}, 422, "unknown_switch"),
        ({"do": "switch_on", "target": "creates", "confirm": "creates", "minutes": 10_081}, 400, "malformed_request"),
        ({"do": "delete"}, 400, "malformed_request"),
        ({"id": "x"}, 400, "malformed_request"),
        ({"more": 1}, 400, "malformed_request"),
        ({"reason": "r" * 20_000}, 413, "body_too_large"),
    ],
    ids=lambda value: None if isinstance(value, int) else str(value)[:30],
)  # fmt: skip
async def test_bad_actions_change_nothing(
    call: Call, stack: Running, body: dict[str, Any], status: int, code: str
) -> None:
    """Each is refused with its code and a sentence, and topology, switches and journal are as before."""

    async def state() -> Any:
        journal = (await call("GET", "api/actions", key=KEY))[1]
        return stack.access.topology(), load_switches(beside(stack.access.topology_path)), journal

    before = await state()
    answered, told = await call("POST", "api/actions", {**action("pause", "set-1"), **body}, key=KEY)
    assert (answered, told["code"]) == (status, code)
    assert told["detail"]
    assert await state() == before


async def test_a_body_that_is_no_json_is_refused(ops: Ops) -> None:
    """What a form of another site could send is no request of ours."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        async with session.post(f"{ops.url}api/actions", data={"do": "pause"}) as answer:
            assert (answer.status, (await answer.json(content_type=None))["code"]) == (415, "json_needed")
        async with session.put(f"{ops.url}api/actions", json={}) as answer:
            assert (answer.status, (await answer.json(content_type=None))["code"]) == (405, "method_not_allowed")
        async with session.get(f"{ops.url}api/nothing") as answer:
            assert (answer.status, (await answer.json(content_type=None))["code"]) == (404, "not_found")
        async with session.get(f"{ops.url}../etc/passwd") as answer:
            assert answer.status == 404


async def test_a_set_that_is_away_takes_it_up_later(call: Call, stack: Running) -> None:
    """An action on a SET none of whose servers answers is done and says so; its servers go by it once they are back."""
    stack.stack.kill("set-2-a", stay_dead=True)
    try:
        status, told = await call("POST", "api/actions", action("pause", "set-2"), key=KEY)
        assert (status, told["changed"], told["followed"]) == (200, True, False)
        assert "set-2 is away" in told["detail"]
    finally:
        await stack.stack.restart("set-2-a")
    status, told = await call("POST", "api/actions", action("resume", "set-2"), key=KEY)
    assert (told["changed"], told["followed"], told["detail"]) == (True, True, "")


async def test_a_full_disk_here_is_said(call: Call, stack: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer has a code and says that the change is published; the same action again finds it done."""
    wanted = action("pause", "set-2")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("published.publisher.keep", full)
        status, told = await call("POST", "api/actions", wanted, key=KEY)
    assert (status, told["code"]) == (503, "not_kept")
    assert "is published" in told["detail"]
    status, told = await call("POST", "api/actions", wanted, key=KEY)
    assert (status, told["changed"]) == (200, False)
    assert next(one for one in load(stack.data / "topology.json").sets if one.name == "set-2").paused
    await call("POST", "api/actions", action("resume", "set-2"), key=KEY)


async def test_a_switch_is_put_on_and_off(call: Call, stack: Running) -> None:
    """It has the operator's reason and an end; its effect is told before; off again twice is off once."""
    status, hits = await call("GET", "api/switches/creates:set-1/effect", key=VIEW_KEY)
    assert (status, hits["sets"]) == (200, ["set-1"])
    await call("POST", "api/actions", action("switch_on", "creates:set-1", minutes=5), key=KEY)
    (one,) = load_switches(beside(stack.access.topology_path))
    assert (one.name, one.reason) == ("creates:set-1", "a test")
    assert 290 <= (one.until - datetime.now(UTC)).total_seconds() <= 300
    assert (await call("POST", "api/actions", action("switch_off", "creates:set-1"), key=KEY))[1]["changed"] is True
    assert (await call("POST", "api/actions", action("switch_off", "creates:set-1"), key=KEY))[1]["changed"] is False
    assert load_switches(beside(stack.access.topology_path)) == []


async def test_nobody_is_asked_while_nobody_watches(call: Call, ops: Ops) -> None:
    """Looks begin with the first question, go on once a second, and end when nobody has asked for some seconds."""
    async with asyncio.timeout(WATCHED_S + 5 * EVERY_S):
        before = -1
        while before != ops.watching.looks:
            before = ops.watching.looks
            await asyncio.sleep(2.5 * EVERY_S)
    assert (await call("GET", "api/live", key=VIEW_KEY))[1]["now"] > 0
    assert ops.watching.looks == before + 1
    async with asyncio.timeout(5 * EVERY_S):
        while ops.watching.looks < before + 3:
            await asyncio.sleep(0.05)
    told = (await call("GET", "api/live?since=0", key=VIEW_KEY))[1]
    assert told["samples"][-1]["n"] == told["next"]
    assert (await call("GET", f"api/live?since={told['next']}", key=VIEW_KEY))[1]["samples"] == []
    assert (await call("GET", "api/live?since=-1", key=VIEW_KEY))[0] == 400


async def test_metrics_of_all_parts_are_one_exposition(call: Call, ops: Ops) -> None:
    """`/ops/metrics` is well-formed, has each part's own samples under its name, and says which parts answer."""
    assert (await call("GET", "metrics", key=VIEW_KEY))[0] == 401
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {METRICS_KEY}"}) as session,
        session.get(f"{ops.url}metrics") as answer,
    ):
        families = {one.name: one for one in text_string_to_metric_families(await answer.text())}
    up = {sample.labels["part"]: sample.value for sample in families["hongbao_part_up"].samples}
    assert up.keys() >= {"gateway-1", "set-1-a", "set-2-a", "wallet", "memcached", "postgres-set-1"}
    assert set(up.values()) == {1.0}
    opens = {sample.labels["part"] for sample in families["hongbao_opens"].samples}
    assert opens == {"set-1-a", "set-2-a"}
    assert {sample.labels["part"] for sample in families["hongbao_http_connections"].samples} == {"gateway-1"}


async def test_metrics_need_nobody_who_watches(stack: Running, tmp_path: Path) -> None:
    """On a host of its own the view fetches the topology for a scrape, too: it is not there before the first."""
    here, there = data_folder.locate(tmp_path), data_folder.locate(stack.data)
    shutil.copy(there.path / "secrets.json", tmp_path / "secrets.json")
    known = inventory.load(there.inventory)
    own = {"secrets": str(tmp_path / "secrets.json"), "topology": str(tmp_path / "topology.json"), "runner": False}
    inventory.save(msgspec.structs.replace(known, **own), here.inventory)
    found = await Federation(find(tmp_path), here, METRICS_KEY).text()
    assert 'hongbao_part_up{part="set-1-a"} 1' in found
    assert (tmp_path / "topology.json").exists()


@contextlib.asynccontextmanager
async def edited(dsn: str, there: str, back: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(there)
        yield
    finally:
        await connection.execute(back)
        await connection.close()


async def test_a_story_tells_what_the_audit_would(call: Call, stack: Running) -> None:
    """Of an honest envelope all holds; a credit or a claim that was edited by hand is named as the audit names it."""
    await stack.deposit("ann", 10_000)
    async with Crowd(stack, 1) as crowd:
        made = await crowd.create("ann", total_fen=900, count=3)
        for user in ("bob", "carol"):
            await crowd.open(user, made)
        await stack.settled_audit()
        path = f"api/envelopes/{made.envelope_id}"
        status, told = await call("GET", path, key=VIEW_KEY)
        assert (status, told["verdict"]["holds"], told["status"]) == (200, True, "open")
        assert "seed" not in told["header"]
        assert {one["what"] for one in told["timeline"]} == {"funded", "created", "claimed", "paid", "expires"}
        assert told["sums"]["paid_in_fen"] == 900 == told["sums"]["claimed_fen"] + told["sums"]["open_fen"]
        assert told["sums"]["credited_fen"] == told["sums"]["claimed_fen"]
        order = f"{made.envelope_id}.1"
        wallet, home = (stack.access.dsn(name, roles.OWNER) for name in ("wallet", told["set"]))
        for dsn, edit, check in (
            (wallet, f"transfer:order_no = '{order}'", "credit_matches_claim"),
            (home, f"claim:envelope_id = {made.envelope_id} AND seq = 0", "amount_follows_seed"),
        ):
            table, _, where = edit.partition(":")
            there, back = (f"UPDATE {table} SET amount_fen = amount_fen {by} WHERE {where}" for by in ("+ 1", "- 1"))
            async with edited(dsn, there, back):
                told = (await call("GET", path, key=VIEW_KEY))[1]
                named = {one["check"] for one in told["verdict"]["violations"]}
                report = await stack.access.audit()
            assert check in named
            assert named <= {one.check for one in report.violations if one.subject == made.envelope_id}
        assert (await crowd.cancel("ann", made)).status == "canceled"
        await stack.settled_audit()
    told = (await call("GET", path, key=VIEW_KEY))[1]
    assert (told["status"], told["verdict"]["holds"], len(told["header"]["seed"])) == ("canceled", True, 64)
    assert {"canceled", "refunded"} <= {one["what"] for one in told["timeline"]}
    unknown = first_id(stack.access.today()) + 5
    assert (await call("GET", f"api/envelopes/{unknown}", key=VIEW_KEY))[1]["code"] == "unknown_envelope"
    assert (await call("GET", "api/envelopes/hello", key=VIEW_KEY))[0] == 422


async def test_the_audit_runs_when_an_operator_asks(call: Call, stack: Running) -> None:
    """One at a time; its result stays for whoever looks later."""
    status, told = await call("POST", "api/audit", {}, key=KEY)
    assert (status, told["running"]) == (200, True)
    assert (await call("POST", "api/audit", {}, key=KEY))[1]["code"] == "audit_under_way"
    async with asyncio.timeout(30):
        while (told := (await call("GET", "api/audit", key=VIEW_KEY))[1])["running"]:
            await asyncio.sleep(0.1)
    assert (told["state"], told["holds"], told["unreconciled_fen"]) == ("done", True, 0)
    assert (await call("GET", "api/live", key=VIEW_KEY))[1]["audit"]["holds"] is True
    async with postgres.connected(stack.access.wallet_dsn()) as connection:
        (noted,) = [one for one in await jobs.read(connection) if one.job == "audit"]
    assert (noted.failed, noted.age_s < 60) == (False, True)


async def test_lists_show_what_they_could_read(call: Call, stack: Running) -> None:
    """Where each database lives, days, statements and their source; of a database that is away they say why."""
    told = (await call("GET", "api/lists/databases", key=VIEW_KEY))[1]
    topology = load(stack.access.topology_path)
    homes = {one["name"]: one["set"] for one in told["databases"]}
    assert homes == {f"db_{xx:02}": topology.set_for_database(xx).name for xx in range(4)}
    days = (await call("GET", "api/lists/calendar", key=VIEW_KEY))[1]
    assert days["today"] in {one["day"] for one in days["sets"]["set-1"] if one["hot"]}
    servers = (await call("GET", "api/lists/statements", key=VIEW_KEY))[1]["servers"]
    assert {one["server"] for one in servers} == {"set-1", "set-2", "wallet"}
    assert all(one["source"] == "pg_stat_statements" or not one["counted"] for one in servers)
    stack.stack.kill("postgres-set-2", stay_dead=True)
    try:
        await asyncio.sleep(2.1)  # what was read before is answered from memory for so long
        days = (await call("GET", "api/lists/calendar", key=VIEW_KEY))[1]
        assert days["sets"].keys() == {"set-1"}
        assert "set-2" in days["away"]
        parts = {one["name"]: one for one in (await call("GET", "api/live", key=VIEW_KEY))[1]["parts"]}
        assert parts["postgres-set-1"]["up"] is True
        assert parts["postgres-set-2"]["up"] is False
    finally:
        await stack.stack.restart("postgres-set-2")
    assert (await call("GET", "api/lists/secrets", key=VIEW_KEY))[0] == 404


async def test_the_keys_are_those_of_the_installation(stack: Running) -> None:
    """A process of the runner's kind gets its three keys by `environment`, and no other."""
    secrets = Secrets.load(stack.stack.folder.secrets)
    given = secrets.environment("ops", "ops")
    assert given.keys() == {"HONGBAO_OPS_KEY", "HONGBAO_OPS_VIEW_KEY", "HONGBAO_METRICS_KEY"}
    assert len(set(given.values())) == 3


async def test_a_key_that_no_file_has_reaches_the_view(stack: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `HONGBAO_…` gives instead of the file is what its audits and questions need, too."""
    monkeypatch.setenv("HONGBAO_ARCHIVE_KEY", "archive!" * 8)
    given = Secrets.load(stack.stack.folder.secrets).environment("ops", "ops")
    assert given["HONGBAO_ARCHIVE_KEY"] == "archive!" * 8
    assert "HONGBAO_LINK_SECRET" not in given


async def test_the_command_serves_an_installation(stack: Running) -> None:
    """`hongbao ops` prints its address, takes the keys of the installation, and ends with 0 at Ctrl-C."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "ops", "--data", str(stack.data),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            url = (await process.stdout.readline()).decode().strip()
        key = Secrets.load(stack.stack.folder.secrets).key("OPS_VIEW_KEY")
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session,
            session.get(f"{url}api/live") as answer,
        ):
            told = await answer.json()
        assert {one["name"] for one in told["sets"]} == {"set-1", "set-2"}
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            _, said = await process.communicate()
        assert (process.returncode, said) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
