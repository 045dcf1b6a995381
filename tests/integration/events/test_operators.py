"""What operators do to sinks, on two SETs: one after another, at the same time, and while a SET goes away."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from click.testing import CliRunner

from cli.commands.events import command
from cli.commands.events_text import _without_password, sink_json
from doctor.events import judge
from errors import Refused, Unavailable
from events import operators, register
from events.limits import MAX_SECRETS
from events.register import State, Target
from events.tail import follow
from tests.conftest import Databases
from tests.integration.setnode.fixtures import build_set

HOOK = Target("app", "webhook", "https://example.com/hook")


class TwoSets:
    """Access to two SETs whose processes nobody runs."""

    def __init__(self, databases: Databases, dsns: Sequence[str]) -> None:
        self._databases = databases
        self.dsns = {f"set-{number}": dsn for number, dsn in enumerate(dsns, 1)}

    def topology(self) -> Any:
        return SimpleNamespace(sets=[SimpleNamespace(name=name) for name in self.dsns])

    def set_dsn(self, name: str, role: str) -> str:
        return self._databases.dsn_as(self.dsns[name], role)

    async def execute(self, set_name: str, statement: str) -> None:
        connection = await asyncpg.connect(self.dsns[set_name])
        await connection.execute(statement)
        await connection.close()

    async def needs(self) -> list[str]:
        return sink_json("app", await operators.sinks(self))["needs"]  # type: ignore[arg-type]


@pytest.fixture
async def access(databases: Databases) -> Any:
    return TwoSets(databases, [await databases.clone("set", partial(build_set, databases.day)) for _ in range(2)])


async def test_two_who_add_the_same_name(access: Any) -> None:
    """One of them is refused; the sink has the other one's secret in every SET."""
    found = await asyncio.gather(*(operators.add(access, HOOK) for _ in range(6)), return_exceptions=True)
    added = [one for one in found if isinstance(one, Target)]
    assert [one.code for one in found if isinstance(one, Refused)] == ["sink_exists"] * 5
    assert {one.target.secrets for of_set in await operators.sinks(access) for one in of_set.sinks} == {
        added[0].secrets
    }


async def test_a_set_goes_away_half_way(access: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says that the SETs may differ, the list where; the same again, or a `resume`, completes it."""

    def dies_in_the_second(name: str) -> None:
        real, seen = getattr(register, name), [0]

        async def call(connection: Any, *args: Any) -> Any:
            seen[0] += 1
            if seen[0] == 2:
                pid = connection.get_server_pid()
                await access.execute("set-2", f"SELECT pg_terminate_backend({pid})")
            return await real(connection, *args)

        monkeypatch.setattr(register, name, call)

    for half, again in (
        (("add", operators.add, (HOOK,)), (operators.resume, ("app",))),
        (("set_state", operators.pause, ("app", "for a test")), (operators.pause, ("app", "for a test"))),
        (("set_state", operators.resume, ("app",)), (operators.resume, ("app",))),
        (("set_secrets", operators.new_secret_of, ("app", timedelta(days=1))),) * 2,
    ):
        name, command, args = half
        dies_in_the_second(name)
        with pytest.raises(Unavailable, match="whether the SETs differ"):
            await command(access, *args)
        monkeypatch.undo()
        (need,) = await access.needs()
        assert "differ" in need or "lacks it" in need
        command, args = again[-2:]
        await command(access, *args)
        assert await access.needs() == []
    assert [one.level.value for one in judge(await operators.sinks(access))] == []


async def test_a_secret_is_renewed_twice(access: Any) -> None:
    """Whoever got none of the new ones still verifies calls, also those of a SET that is added meanwhile."""
    first = (await operators.add(access, HOOK)).secrets[0]
    renewed = [await operators.new_secret_of(access, "app", timedelta(days=1)) for _ in range(2)]
    await access.execute("set-2", "DELETE FROM event_sink")
    assert [one.level.value for one in judge(await operators.sinks(access))] == ["wrong"]
    await operators.resume(access, "app")
    for of_set in await operators.sinks(access):
        (sink,) = of_set.sinks
        assert sink.target.secrets == (*reversed(renewed), first)
        assert sink.target.old_secrets_until is not None
    for _ in range(MAX_SECRETS):
        await operators.new_secret_of(access, "app", timedelta(0))
    assert len((await operators.sinks(access))[0].sinks[0].target.secrets) == 2  # the older ones had ended


async def test_what_was_lost_is_shown_until_an_operator_resumes(access: Any) -> None:
    """The list and the doctor say it; it does not ask for somebody for ever."""
    await operators.add(access, HOOK)
    await access.execute("set-1", "UPDATE event_cursor SET lost_until = now()")
    (need,) = await access.needs()
    assert "is lost" in need
    assert [one.level.value for one in judge(await operators.sinks(access))] == ["soon"]
    await operators.resume(access, "app")
    assert await access.needs() == []
    assert {one.state for of_set in await operators.sinks(access) for one in of_set.sinks} == {State.ACTIVE}


async def test_a_name_that_nobody_has(access: Any) -> None:
    """Every command says the same: which receivers there are, and which was meant."""
    commands = [
        operators.remove, operators.resume, operators.of_name, operators.wake_up,
        partial(operators.pause, reason="for a test"), partial(operators.redrive, event_ids=None),
        partial(operators.drop, event_ids=["1.created"]), partial(operators.new_secret_of, keep_old=timedelta(0)),
        partial(operators.dead, limit=10),
    ]  # fmt: skip
    for one in commands:
        with pytest.raises(Refused, match=r"no sink 'ap'; add one: ./run events add"):
            await one(access, "ap")
    await operators.add(access, HOOK)
    for one in commands:
        with pytest.raises(Refused, match=r"no sink 'ap', there are app; did you mean app\?"):
            await one(access, "ap")


_ROW = """INSERT INTO event_retry (sink, envelope_id, event_id, body, tries, next_at, reason)
VALUES ('app', 1, '{}', '{{}}', {}, {}, 'the receiver answered 500')"""


async def _command(access: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    monkeypatch.setattr("cli.commands.events.find_current", lambda _: access)
    told = await asyncio.to_thread(CliRunner().invoke, command, words)
    return told.exit_code, told.output


async def test_events_that_are_sent_again_by_name(access: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says how many of each kind, and of every other name why it was not sent."""
    await operators.add(access, HOOK)
    await access.execute("set-1", _ROW.format("1.opened.1", 9, "NULL"))
    await access.execute("set-2", _ROW.format("1.opened.2", 3, "now() + interval '1 hour'"))
    await access.execute("set-2", _ROW.format("1.opened.3", 0, "now()"))
    code, said = await _command(access, monkeypatch, "redrive", "app", "nonsense")
    assert code == 1
    assert "no event 'nonsense' among the dead letters of app and what it refuses" in said
    code, said = await _command(access, monkeypatch, "redrive", "app", "1.opened.1", "--drop", "nonsense")
    assert code == 1
    assert "1 event deleted\nthere is no dead letter 'nonsense' of app" in said
    await access.execute("set-1", _ROW.format("1.opened.1", 9, "NULL"))
    code, said = await _command(access, monkeypatch, "redrive", "app", "1.opened.1", "1.opened.2", "1.opened.3")
    assert code == 1
    assert "2 events to send again: 1 dead letter, 1 retried\n1.opened.3 is on its way, or waits behind" in said
    code, said = await _command(access, monkeypatch, "redrive", "app", "1.opened.2", "--json")
    assert (code, json.loads(said)) == (
        0, {"events": ["1.opened.2"], "retried": ["1.opened.2"], "unknown": []},
    )  # fmt: skip
    code, said = await _command(access, monkeypatch, "redrive", "app", "nonsense", "--json")
    assert (code, json.loads(said)) == (1, {"events": [], "retried": [], "unknown": ["nonsense"]})
    # A paused sink sends nothing, whatever is due.
    await operators.pause(access, "app", "for a test")
    code, said = await _command(access, monkeypatch, "redrive", "app", "1.opened.2")
    assert (code, said.strip()) == (
        0, "1 event to send again: 0 dead letters, 1 retried; app is paused: ./run events resume app",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (HOOK._replace(address=f"https://example.com/{'x' * 2_000}"), "address_invalid"),
        (HOOK._replace(address="https://localhost/hook", private_addresses=False), "address_private"),
        (HOOK._replace(address="https://127.1/hook", private_addresses=False), "address_private"),
        (HOOK._replace(name="App"), "sink_name_invalid"),
        (HOOK._replace(batch=0), "batch_invalid"),
        (HOOK._replace(types=("share.lost",)), "unknown_event"),
        (HOOK._replace(secrets=("whsec_c2hvcnQ=",)), "secret_invalid"),
    ],
)
async def test_sinks_that_are_refused(access: Any, target: Target, code: str) -> None:
    """With a sentence; no SET has anything of them."""
    with pytest.raises(Refused) as refused:
        await operators.add(access, target)
    assert refused.value.code == code
    assert [of_set.sinks for of_set in await operators.sinks(access)] == [[], []]


async def test_a_tail_that_was_away_for_too_long_says_so(access: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place in the log is gone: what comes next would have a gap that nobody sees."""
    monkeypatch.setattr("events.tail.LOOK_S", 0.0)
    following = follow(access)
    first = asyncio.ensure_future(anext(following))
    while not await _tails(access):
        await asyncio.sleep(0.02)
    for name in access.dsns:
        await access.execute(name, "DELETE FROM event_sink")
    with pytest.raises(Refused, match="may be missing"):
        await asyncio.wait_for(first, 10)


async def _tails(access: Any) -> int:
    connection = await asyncpg.connect(access.dsns["set-2"])
    try:
        return await connection.fetchval("SELECT count(*) FROM event_sink")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("nats://user:pass@host:4222/S", "nats://…@host:4222/S"),
        ("nats://user:p@ss@host:4222", "nats://…@host:4222"),
        ("tls://token@host", "tls://…@host"),
        ("https://example.com/a@b", "https://example.com/a@b"),
    ],
)
def test_passwords_are_not_shown(address: str, shown: str) -> None:
    """Of an address of NATS everything before its host is left out."""
    assert _without_password(address) == shown
