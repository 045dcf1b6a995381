"""A receiver that was mended is asked at once, and what it refuses is shown until it accepts it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner
from structlog.testing import capture_logs

from cli.commands.events import command
from cli.commands.events_text import sink_json
from doctor.events import judge
from events import limits
from events.operators import SetSinks
from events.register import State, set_state
from events.retries import dead_letters, redrive
from events.wake import wake
from tests.integration.events.fixtures import (
    Receiver,
    add_sink,
    by_envelope,
    delivering,
    events_dsn,
    operator,
    out_of_order,
    quick,
    receiver,
    sink_of,
)
from tests.integration.setnode.fixtures import Town, town

__all__ = ["quick", "receiver", "town"]

pytestmark = pytest.mark.usefixtures("quick")

NEVER_S = 86_400
"""Of a pause that a test does not wait for."""


@pytest.fixture
def slow(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `quick`: a pause of the schedule is longer than a test."""
    del quick
    monkeypatch.setattr("events.retries.RETRY_PAUSES_S", (NEVER_S,) * 3)


async def _refused(town: Town, receiver: Receiver, shares: int = 4) -> tuple[str, Any]:
    """Have the receiver refuse one event of an envelope that is opened; returns its ID, and the sink then."""
    bad = await town.create(1_000, shares)
    receiver.answer = lambda events: 500 if any(one["id"] == f"{bad}.opened.1" for one in events) else 204
    await asyncio.gather(*(town.open(bad, f"u{n}") for n in range(shares)))
    async with asyncio.timeout(60):
        while (sink := await sink_of(town)).retried < shares or sink.failing_since is not None:
            await town.create(1_000, 1)  # others are accepted
    return f"{bad}.opened.1", sink


async def _all_came(town: Town, receiver: Receiver, event_id: str, *, once: bool = False) -> None:
    """Wait for what was refused and all behind it, in order; `once`: nothing was accepted twice."""
    envelope = event_id.partition(".")[0]
    names = [f"{envelope}.{what}" for what in ("created", *(f"opened.{n}" for n in range(4)), "sold_out")]
    await receiver.until(lambda: len(by_envelope(receiver.first()).get(envelope, [])) >= len(names))
    told = receiver.accepted if once else receiver.first()
    assert [one["id"] for one in by_envelope(told)[envelope]] == names
    async with asyncio.timeout(60):
        while (sink := await sink_of(town)).retried:
            await asyncio.sleep(0.01)
    assert sink.refused is None


@pytest.mark.usefixtures("slow")
async def test_a_refused_event_is_told_with_its_answer(town: Town, receiver: Receiver) -> None:
    """By the list, in JSON, by the doctor, and by one line of the log as soon as it is retried apart."""
    await add_sink(town, receiver)
    with capture_logs() as logs:
        async with delivering(town):
            event_id, sink = await _refused(town, receiver)
    assert (sink.refused.number, sink.refused.event_id, sink.failing_since) == (1, event_id, None)
    found = SetSinks("set-1", [sink])
    shown = sink_json("app", [found])
    (refused,) = shown["refused"]
    assert (refused["set"], refused["count"], refused["event_id"]) == ("set-1", 1, event_id)
    (need,) = shown["needs"]
    (finding,) = judge([found])
    assert finding.level.value == "soon"
    for said in (need, finding.what, refused["reason"]):
        assert "answered 500" in said
    for said in (need, finding.what):
        assert event_id in said
    (line,) = [one for one in logs if one["log_level"] == "warning"]
    assert (line["event_id"], line["sink"], line["set"]) == (event_id, "app", "set-1")
    assert "answered 500" in line["reason"]


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("how", ["wake", "resume", "redrive all", "redrive one", "restart"])
async def test_what_is_retried_comes_as_soon_as_the_receiver_is_mended(
    town: Town, receiver: Receiver, how: str
) -> None:
    """Whichever way an operator says so: the refused event, then those behind it, in order."""
    await add_sink(town, receiver)
    async with delivering(town):
        event_id, _ = await _refused(town, receiver)
        receiver.answer = lambda _: 204
        async with operator(town) as connection:
            if how == "wake":
                await wake(connection, "app")
            elif how == "resume":
                await set_state(connection, "app", State.ACTIVE)
            elif how.startswith("redrive"):
                again = await redrive(connection, "app", None if "all" in how else [event_id])
                assert (again.dead, again.retried, again.waiting) == ([], [event_id], [])
        if how != "restart":
            await _all_came(town, receiver, event_id, once=how != "resume")  # which begins at the saved cursor
    if how == "restart":
        async with delivering(town):
            await _all_came(town, receiver, event_id)
    assert not list(out_of_order(receiver.accepted))


@pytest.mark.usefixtures("slow")
async def test_a_wake_takes_nothing_of_the_three_days(town: Town, receiver: Receiver) -> None:
    """Woken more often than its schedule has tries, an event that is refused is no dead letter, and stays in order."""
    await add_sink(town, receiver)
    async with delivering(town), operator(town) as connection:
        event_id, before = await _refused(town, receiver)

        def tries() -> int:
            return sum(events[0]["id"] == event_id for _, events in receiver.calls)

        for _ in range(6):
            seen = tries()
            await wake(connection, "app")
            await receiver.until(lambda seen=seen: tries() > seen)
        assert not await dead_letters(connection, "app", 10)
        assert (await sink_of(town)).refused.next_at == before.refused.next_at
        envelope = event_id.partition(".")[0]
        assert [one["id"] for one in by_envelope(receiver.accepted)[envelope]] == [
            f"{envelope}.created", f"{envelope}.opened.0",
        ]  # fmt: skip


@pytest.mark.usefixtures("slow")
async def test_what_waits_behind_a_refused_event_does_not_pass_it(town: Town, receiver: Receiver) -> None:
    """It is not sent again by its name, and what nobody knows is not found."""
    await add_sink(town, receiver)
    async with delivering(town), operator(town) as connection:
        event_id, _ = await _refused(town, receiver)
        behind = event_id.replace("opened.1", "opened.2")
        again = await redrive(connection, "app", [behind, "nonsense"])
        assert (again.dead, again.retried, again.waiting) == ([], [], [behind])
        seen = len(receiver.calls)
        assert (await redrive(connection, "app", None)).retried == [event_id]
        await receiver.until(lambda: any(events[0]["id"] == event_id for _, events in receiver.calls[seen:]))
        assert behind not in {one["id"] for one in receiver.accepted}


@pytest.mark.usefixtures("slow")
async def test_what_waits_behind_a_mended_event_follows_it_at_once(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one look at what is retried: of a hot envelope hundreds may wait, and a look comes once a second."""
    await add_sink(town, receiver)
    async with delivering(town), operator(town) as connection:
        event_id, _ = await _refused(town, receiver)

        def accept(events: list[dict[str, Any]]) -> int:
            if events[0]["id"] == event_id:
                monkeypatch.setattr("events.delivery.RETRY_LOOK_S", NEVER_S)
            return 204

        receiver.answer = accept
        await wake(connection, "app")
        await _all_came(town, receiver, event_id, once=True)


async def test_a_receiver_that_is_back_need_not_be_waited_for(town: Town, receiver: Receiver) -> None:
    """A wake ends the pause of the whole sink, also the one that a Retry-After has asked for; no call is repeated."""
    receiver.answer = lambda _: _asks_to_wait()
    await add_sink(town, receiver)
    async with delivering(town), operator(town) as connection:
        created = await town.create(1_000, 1)
        async with asyncio.timeout(60):
            while (await sink_of(town)).failing_since is None:
                await asyncio.sleep(0.01)
        receiver.answer = lambda _: 204
        await wake(connection, "nobody")  # a receiver that this SET does not have
        await wake(connection, "app")
        await receiver.until(lambda: bool(receiver.accepted))
    assert [one["id"] for one in receiver.accepted] == [f"{created}.created"]
    assert len(receiver.calls) == 2


@pytest.mark.usefixtures("slow")
async def test_an_accepted_test_wakes_what_waits(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command `events test` sends one event from where it runs; one that is not accepted wakes nothing."""
    topology = SimpleNamespace(sets=[SimpleNamespace(name="set-1")])
    access = SimpleNamespace(topology=lambda: topology, set_dsn=lambda *_: events_dsn(town))
    monkeypatch.setattr("cli.commands.events.find_current", lambda _: access)

    async def test() -> tuple[int, str]:
        told = await asyncio.to_thread(CliRunner().invoke, command, ["test", "app"])
        return told.exit_code, told.output.splitlines()[-1]  # the town logs to the same output

    await add_sink(town, receiver)
    assert await test() == (0, "app has accepted it")
    async with delivering(town), operator(town) as connection:
        event_id, _ = await _refused(town, receiver)
        receiver.answer = lambda _: 500
        seen = len(receiver.calls)
        code, said = await test()
        assert (code, "not accepted: the receiver answered 500" in said) == (1, True)
        receiver.answer = lambda _: 204
        assert event_id not in {one["id"] for _, events in receiver.calls[seen:] for one in events}
        assert await test() == (0, "app has accepted it; what waited for its next try is sent now")
        await _all_came(town, receiver, event_id, once=True)
        await set_state(connection, "app", State.PAUSED)
        assert await test() == (
            0, "app has accepted it; it is paused: ./run events resume app goes on where it was",
        )  # fmt: skip


def _asks_to_wait() -> web.Response:
    return web.Response(status=503, headers={"Retry-After": str(int(limits.MAX_RETRY_AFTER_S))})
