"""Receivers that fail, hang, redirect, refuse one event, want no more; secrets that change; sinks that are removed."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
from aiohttp import web

from errors import Refused
from events import limits
from events.event import Event
from events.register import Kind, State, Target, new_secret, remove, set_secrets, set_state
from events.retries import dead_letters, redrive
from events.service import sender_of
from events.webhook.endpoint import Webhook
from runtime import metrics
from tests.integration.events.fixtures import (
    Receiver,
    add_sink,
    answering,
    by_envelope,
    delivering,
    operator,
    out_of_order,
    quick,
    receiver,
    receiving,
    sink_of,
)
from tests.integration.setnode.fixtures import Town, town

__all__ = ["quick", "receiver", "town"]

pytestmark = pytest.mark.usefixtures("quick")


async def _lives(town: Town, count: int = 5, shares: int = 4) -> int:
    """Play `count` envelopes to their end; returns how many events they make."""
    ids = await asyncio.gather(*(town.create(1_000, shares) for _ in range(count)))
    await asyncio.gather(*(town.open(one, f"u{n}") for one in ids for n in range(shares)))
    return count * (shares + 2)


async def test_a_failing_sink_stops_only_itself(town: Town, receiver: Receiver) -> None:
    """One receiver answers 500: the other gets everything; the first one's cursor stays, and it loses nothing."""
    async with receiving() as broken:
        broken.answer = lambda _: 500
        await add_sink(town, receiver)
        await add_sink(town, broken, "broken")
        async with delivering(town):
            events = await _lives(town)
            await receiver.until(lambda: len(receiver.accepted) == events)
            await broken.until(lambda: len(broken.calls) > 3)
            await asyncio.sleep(0.1)
            failing = await sink_of(town, "broken")
            assert (failing.delivered, failing.error) == (0, "the receiver answered 500 Internal Server Error")
            assert failing.failing_since is not None
            assert failing.behind_s > 0
            assert not failing.retried
            broken.answer = lambda _: 204
            await broken.until(lambda: len(broken.first()) == events)
            await asyncio.sleep(0.1)
    assert not list(out_of_order(broken.accepted))
    assert not list(out_of_order(receiver.accepted))
    well = await sink_of(town, "broken")
    assert (well.delivered, well.error, well.failing_since, well.behind_s) == (events, "", None, 0)


async def test_one_refused_event_does_not_stop_the_others(town: Town, receiver: Receiver) -> None:
    """It is retried apart, its envelope's later events behind it in order; then it is a dead letter, and they go on."""
    await add_sink(town, receiver)
    bad = await town.create(1_000, 4)  # told with the opens below: the sink is there
    receiver.answer = lambda events: 500 if any(one["id"] == f"{bad}.opened.1" for one in events) else 204
    async with delivering(town):
        await asyncio.gather(*(town.open(bad, f"u{n}") for n in range(4)))
        for _ in range(4):
            await _lives(town)
        async with operator(town) as connection:
            async with asyncio.timeout(60):
                while not (dead := await dead_letters(connection, "app", 10)):
                    await asyncio.sleep(0.05)
            assert [one.event_id for one in dead] == [f"{bad}.opened.1"]
            assert "500" in dead[0].reason
            await receiver.until(lambda: len(receiver.first()) == 4 * 30 + 5)
            assert [one["id"] for one in by_envelope(receiver.first())[str(bad)]] == [
                f"{bad}.{what}" for what in ("created", "opened.0", "opened.2", "opened.3", "sold_out")
            ]
            # The operator has had the receiver mended.
            receiver.answer = lambda _: 204
            assert (await redrive(connection, "app", None)).dead == [f"{bad}.opened.1"]
            await receiver.until(lambda: len(receiver.first()) == 4 * 30 + 6)
            assert not await dead_letters(connection, "app", 10)


async def test_killed_while_it_delivers(town: Town, receiver: Receiver) -> None:
    """Killed again and again between two events: each arrives at least once, those of an envelope in order."""
    await add_sink(town, receiver)
    for _ in range(6):
        async with delivering(town):
            before = len(receiver.accepted)
            playing = asyncio.create_task(_lives(town, 6))
            await receiver.until(lambda before=before: len(receiver.accepted) > before + 3)
        await playing
    async with delivering(town):
        await receiver.until(lambda: len(receiver.first()) == 6 * 36)
    assert not list(out_of_order(receiver.accepted))


async def test_a_receiver_that_wants_no_more_is_left_alone(town: Town, receiver: Receiver) -> None:
    """410 disables the sink at once, with the reason; an operator may resume it, and it goes on where it was."""
    receiver.answer = lambda _: 410
    await add_sink(town, receiver)
    async with delivering(town):
        events = await _lives(town, 1)
        async with asyncio.timeout(60):
            while (sink := await sink_of(town)).state != State.DISABLED:
                await asyncio.sleep(0.02)
        assert "410" in sink.reason
        calls = len(receiver.calls)
        await asyncio.sleep(0.3)
        assert len(receiver.calls) == calls
        receiver.answer = lambda _: 204
        async with operator(town) as connection:
            assert await set_state(connection, "app", State.ACTIVE)
        await receiver.until(lambda: len(receiver.first()) == events)


async def test_a_receiver_that_hangs_is_given_up_and_asked_again(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call has a deadline; the same event is sent again, with the same ID."""
    monkeypatch.setattr("events.webhook.endpoint.CALL_S", 0.2)
    hung = asyncio.Event()

    async def hang(_: Any) -> web.Response:
        hung.set()
        await asyncio.sleep(1)
        return web.Response(status=204)

    receiver.answer = hang
    await add_sink(town, receiver)
    async with delivering(town):
        events = await _lives(town, 1)
        await asyncio.wait_for(hung.wait(), 10)
        async with asyncio.timeout(60):
            while "did not answer" not in (await sink_of(town)).error:
                await asyncio.sleep(0.02)
        receiver.answer = lambda _: 204
        await receiver.until(lambda: len(receiver.first()) == events)
    ids = [headers["webhook-id"] for headers, _ in receiver.calls]
    assert len(ids) > len(set(ids)) == events


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"500 \xff\xfe\r\nContent-Length: 0", "the receiver answered 500 \ufffd\ufffd"),
        (b"500 a\x00b\x1b[31mc\r\nContent-Length: 0", "the receiver answered 500 a\ufffdb\ufffd[31mc"),
        (b"500 " + b"x" * 5_000 + b"\r\nContent-Length: 0", "the receiver answered 500 " + "x" * 374),
        (
            b"503 away\r\nContent-Length: 0\r\nRetry-After: Mon, 01 Jan 2026 00:00:00 +99999999999999999999",
            "the receiver answered 503 away",
        ),
    ],
    ids=["no characters", "control characters", "long", "a date that is none"],
)
async def test_whatever_a_receiver_answers_is_shown(town: Town, receiver: Receiver, answer: bytes, shown: str) -> None:
    """An answer that Postgres could not store, or whose date is none, is a failure like others, and is shown."""
    async with answering(b"HTTP/1.1 " + answer + b"\r\n\r\n") as url:
        receiver.url = url
        await add_sink(town, receiver)
        async with delivering(town):
            await town.create(1_000, 1)
            async with asyncio.timeout(60):
                while not (error := (await sink_of(town)).error):
                    await asyncio.sleep(0.02)
    assert error == shown


async def test_a_token_in_the_address_is_not_told(receiver: Receiver) -> None:
    """What is stored and logged of a call does not hold the address, whose path or query may be a secret."""
    async with answering(b"SSH-2.0-OpenSSH\r\n\r\n") as url:
        target = Target("app", "webhook", f"{url}?token=hidden", private_addresses=True, secrets=(receiver.secret,))
        webhook = Webhook(target)
        failure = await webhook.send([Event(1, "1.created", "envelope.created", b"{}")])
        await webhook.close()
    assert failure is not None
    assert "no answer that is HTTP" in failure.reason
    assert "hidden" not in failure.reason


async def test_the_status_counts_not_the_body(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer whose body never comes has accepted the event, or refused it, as its status says."""
    monkeypatch.setattr("events.webhook.endpoint.BODY_S", 0.05)
    event = Event(1, "1.created", "envelope.created", b"{}")
    for status, failure in ((200, None), (500, "the receiver answered 500 broken")):
        async with answering(f"HTTP/1.1 {status} broken\r\nContent-Length: 10\r\n\r\n".encode()) as url:
            webhook = Webhook(Target("app", "webhook", url, private_addresses=True, secrets=(receiver.secret,)))
            async with asyncio.timeout(5):
                told = await webhook.send([event])
            await webhook.close()
        assert (told and told.reason) == failure


async def test_a_receiver_that_fails_for_days_is_disabled(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what it last answered, however long that is."""
    monkeypatch.setattr("events.delivery.DISABLED_AFTER_S", 0.2)
    receiver.answer = lambda _: web.Response(status=500, reason="x" * 1_000)
    await add_sink(town, receiver)
    async with delivering(town):
        await town.create(1_000, 1)
        async with asyncio.timeout(60):
            while (sink := await sink_of(town)).state != State.DISABLED:
                await asyncio.sleep(0.02)
    assert sink.reason.startswith("no call has succeeded since")
    assert "answered 500 xxx" in sink.reason


async def test_a_redirect_is_not_followed(town: Town, receiver: Receiver) -> None:
    """A redirect leads where the operator has not said: it counts as a failure that says so."""
    async with receiving(receiver.secret) as other:
        receiver.answer = lambda _: web.Response(status=307, headers={"Location": other.url})
        await add_sink(town, receiver)
        async with delivering(town):
            await _lives(town, 1)
            async with asyncio.timeout(60):
                while "not followed" not in (await sink_of(town)).error:
                    await asyncio.sleep(0.02)
        assert not other.calls


async def test_secrets_change_without_a_gap(town: Town, receiver: Receiver) -> None:
    """While both secrets are valid a receiver that knows either accepts; afterwards only the new one signs."""
    await add_sink(town, receiver)
    old, new = receiver.secret, new_secret()
    async with delivering(town), operator(town) as connection:
        first = await _lives(town, 2)
        await receiver.until(lambda: len(receiver.first()) == first)
        await set_secrets(connection, "app", [new, old], datetime.now(UTC) + timedelta(hours=1))
        await asyncio.sleep(0.3)
        second = await _lives(town, 2)
        await receiver.until(lambda: len(receiver.first()) == first + second)
        assert len(receiver.calls[-1][0]["webhook-signature"].split(" ")) == 2
        receiver.secret = new
        await set_secrets(connection, "app", [new, old], datetime.now(UTC) - timedelta(seconds=1))
        await asyncio.sleep(0.3)
        third = await _lives(town, 2)
        await receiver.until(lambda: len(receiver.first()) == first + second + third)
        assert len(receiver.calls[-1][0]["webhook-signature"].split(" ")) == 1
    assert len(receiver.accepted) == first + second + third  # nothing was sent twice because of it


async def test_batches_arrive_in_order(town: Town, receiver: Receiver) -> None:
    """A sink that takes several events in a call gets a JSON array; a refused call is sent again, then one by one."""
    await add_sink(town, receiver, batch=50)
    bad = set[str]()

    def answer(events: list[dict[str, Any]]) -> int:
        if len(events) > 1 and not bad:
            bad.add(events[1]["id"])
        return 500 if bad & {one["id"] for one in events} and len(events) > 1 else 204

    receiver.answer = answer
    ids = await asyncio.gather(*(town.create(10_000, 100) for _ in range(3)))
    await asyncio.gather(*(town.open(one, f"u{n}") for one in ids for n in range(100)))
    async with delivering(town):
        await receiver.until(lambda: len(receiver.first()) == 3 * 102)
    assert not list(out_of_order(receiver.accepted))
    assert len(receiver.calls) < 100
    assert {headers["Content-Type"] for headers, _ in receiver.calls} == {"application/cloudevents-batch+json"}
    by_id: dict[str, list[str]] = {}
    for headers, events in receiver.calls:
        assert by_id.setdefault(headers["webhook-id"], [one["id"] for one in events]) == [one["id"] for one in events]


async def test_a_sink_gets_the_types_that_it_wants(town: Town, receiver: Receiver) -> None:
    """Others are passed over, and count as passed."""
    await add_sink(town, receiver, types=("envelope.sold_out",))
    async with delivering(town):
        await _lives(town, 3)
        await receiver.until(lambda: len(receiver.accepted) == 3)
        async with asyncio.timeout(60):
            while (await sink_of(town)).behind_s:
                await asyncio.sleep(0.02)
    assert set(receiver.types()) == {"envelope.sold_out"}


async def test_a_sink_is_removed_while_it_lags(town: Town, receiver: Receiver) -> None:
    """Its calls end within moments, its entries go, and the others hear everything."""
    async with receiving() as broken:
        broken.answer = lambda _: 503
        await add_sink(town, broken, "broken")
        await add_sink(town, receiver)
        async with delivering(town):
            events = await _lives(town)
            await broken.until(lambda: len(broken.calls) > 3)
            async with operator(town) as connection:
                assert await remove(connection, "broken")
            await receiver.until(lambda: len(receiver.accepted) == events)
            async with asyncio.timeout(60):
                while await town.scalar("SELECT count(*) FROM event_log"):
                    await asyncio.sleep(0.02)
            calls = len(broken.calls)
            await asyncio.sleep(0.3)
            assert len(broken.calls) == calls


async def test_what_is_too_old_is_deleted_and_noted(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that a sink has not passed within the time go all the same, and the sink says what it lost."""
    receiver.answer = lambda _: 500
    await add_sink(town, receiver)
    await _lives(town, 1)
    monkeypatch.setattr("events.set_worker.KEPT_S", 0.0)
    async with delivering(town):
        async with asyncio.timeout(60):
            while await town.scalar("SELECT count(*) FROM event_log"):
                await asyncio.sleep(0.02)
    assert (await sink_of(town)).lost_until is not None


async def test_a_receiver_that_says_when_is_not_asked_before(receiver: Receiver) -> None:
    """`Retry-After` in seconds or as a date is passed on; nonsense counts as nothing."""
    webhook = Webhook(Target("app", "webhook", receiver.url, private_addresses=True, secrets=(receiver.secret,)))
    later = (datetime.now(UTC) + timedelta(seconds=90)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    for text, least, most in (("7", 7, 7), (later, 80, 90), ("soon", 0, 0), ("-1", 0, 0)):
        receiver.answer = lambda _, text=text: web.Response(status=429, headers={"Retry-After": text})
        failure = await webhook.send([Event(1, "1.created", "envelope.created", b"{}")])
        assert failure is not None
        assert least <= failure.retry_after_s <= most
    await webhook.close()
    assert limits.MAX_RETRY_AFTER_S == 3_600


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("http://example.com/hook", "address_invalid"),
        ("ftp://example.com/hook", "address_invalid"),
        ("https://", "address_invalid"),
        ("https://user:secret@example.com/", "address_invalid"),
        ("https://example.com/#part", "address_invalid"),
        ("https://127.0.0.1/hook", "address_private"),
        ("https://[::1]/hook", "address_private"),
        ("https://[::ffff:10.0.0.1]/hook", "address_private"),
        ("https://[64:ff9b::7f00:1]/hook", "address_private"),
        ("https://169.254.169.254/latest/meta-data", "address_private"),
        ("https://100.64.0.1/", "address_private"),
        ("https://0.0.0.0/", "address_private"),
        ("https://[::7f00:1]/", "address_private"),
        ("https://[::ffff:0:7f00:1]/", "address_private"),
        ("https://[fec0::1]/", "address_private"),
    ],
)
async def test_addresses_that_are_not_called(address: str, code: str) -> None:
    """What is no receiver on the public Internet is refused when it is named, with a sentence."""
    with pytest.raises(Refused) as refused:
        sender_of(Target("app", Kind.WEBHOOK, address, secrets=(new_secret(),)))
    assert refused.value.code == code


def test_what_is_no_receivers_url_is_told_what_one_is() -> None:
    """Both kinds are named: who writes another scheme may have meant either."""
    with pytest.raises(Refused, match=r"'ftp://foo' is no receiver's URL.*https://.*nats://"):
        sender_of(Target("app", Kind.WEBHOOK, "ftp://foo", secrets=(new_secret(),)))


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1"])
async def test_a_name_of_a_private_address_is_not_called(receiver: Receiver, host: str) -> None:
    """What a name resolves to is looked at when the connection is made, however the name is written."""
    port = receiver.url.split(":")[2].split("/")[0]
    target = Target("app", Kind.WEBHOOK, f"https://{host}:{port}/hook", secrets=(receiver.secret,))
    webhook = Webhook(target)
    failure = await webhook.send([Event(1, "1.created", "envelope.created", b"{}")])
    await webhook.close()
    assert failure is not None
    assert "private network" in failure.reason or "not a canonical" in failure.reason
    assert not receiver.calls


async def test_a_receiver_can_prove_who_called(receiver: Receiver) -> None:
    """The standard library of webhooks accepts our calls, and refuses a changed body, another secret, another ID."""
    webhook = Webhook(Target("app", "webhook", receiver.url, private_addresses=True, secrets=(receiver.secret,)))
    body = json.dumps({"greeting": "红包"}, ensure_ascii=False).encode()
    assert await webhook.send([Event(1, "1.created", "envelope.created", body)]) is None
    await webhook.close()
    headers = dict(receiver.calls[0][0])
    verify = standardwebhooks.Webhook(receiver.secret).verify
    assert verify(body, headers) == {"greeting": "红包"}
    for wrong in (
        lambda: verify(body + b" ", headers),
        lambda: verify(body, headers | {"webhook-id": "other"}),
        lambda: standardwebhooks.Webhook(new_secret()).verify(body, headers),
    ):
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            wrong()


@pytest.mark.long
async def test_a_sink_of_the_same_name_is_another_one(town: Town, receiver: Receiver, monkeypatch: Any) -> None:
    """Removed and added with another address between two looks: it hears all that is committed from then on."""
    monkeypatch.setattr("events.set_worker.LOOK_S", 0.8)
    monkeypatch.setattr("events.delivery.SAVE_S", 0.3)
    async with receiving(receiver.secret) as other:
        await add_sink(town, receiver)
        async with delivering(town), operator(town) as connection:
            for to in (other, receiver) * 2:
                await town.create(1_000, 1)
                await asyncio.sleep(1.0)
                assert await remove(connection, "app")
                await add_sink(town, to)
                told = str(await town.create(1_000, 1))
                await to.until(lambda to=to, told=told: told in {one["subject"] for one in to.accepted})


async def test_a_set_in_which_nothing_happens_is_not_written_to(
    town: Town, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor that passes nothing is not written: writing it would move it again, five times a second for ever."""
    monkeypatch.setattr("events.delivery.QUIET_SAVE_S", limits.QUIET_SAVE_S)
    await add_sink(town, receiver)
    async with delivering(town):
        await town.create(1_000, 1)
        await receiver.until(lambda: len(receiver.accepted) == 1)
        async with asyncio.timeout(60):
            while not (await sink_of(town)).delivered:
                await asyncio.sleep(0.05)
        await town.paid_out()
        seen = (await sink_of(town)).cursor
        await asyncio.sleep(1.5)
        assert (await sink_of(town)).cursor == seen


async def test_metrics_are_of_sinks_that_stand(town: Town, receiver: Receiver) -> None:
    """A receiver that fails shows, also once it is disabled; nothing is left of a sink that is removed."""

    def shown() -> list[str]:
        lines = metrics.render().decode().splitlines()
        return [one for one in lines if one.startswith("hongbao_events_failing{")]

    receiver.answer = lambda _: 410
    await add_sink(town, receiver)
    async with delivering(town), operator(town) as connection:
        await _lives(town, 1)
        async with asyncio.timeout(60):
            while (await sink_of(town)).state != State.DISABLED or shown() != [
                'hongbao_events_failing{set="set-1",sink="app"} 1.0'
            ]:
                await asyncio.sleep(0.02)
        await remove(connection, "app")
        async with asyncio.timeout(60):
            while shown():
                await asyncio.sleep(0.02)


@pytest.fixture
def patient(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `quick`: so many retries that no event is a dead letter before the test has its receiver accept it."""
    del quick
    monkeypatch.setattr("events.retries.RETRY_PAUSES_S", (0.05,) * 1_000)


@pytest.mark.usefixtures("patient")
async def test_a_refused_event_of_a_hot_envelope_does_not_stop_the_others(town: Town, receiver: Receiver) -> None:
    """Also if its envelope's later events fill the lane, so that nothing else is read that could be accepted."""
    await add_sink(town, receiver)
    hot = await town.create(100_000, 200)
    receiver.answer = lambda events: 500 if any(one["id"] == f"{hot}.opened.1" for one in events) else 204
    await asyncio.gather(*(town.open(hot, f"u{n}") for n in range(200)))
    other = str(await town.create(1_000, 1))
    async with delivering(town):
        await receiver.until(lambda: other in {one["subject"] for one in receiver.accepted})
        receiver.answer = lambda _: 204
        await receiver.until(lambda: len(receiver.first()) == 203)
    assert not list(out_of_order(receiver.accepted))


@pytest.mark.long
@pytest.mark.usefixtures("patient")
async def test_a_receiver_that_is_away_while_an_envelope_is_hot_loses_nothing(town: Town, receiver: Receiver) -> None:
    """One event is put apart on suspicion, and its envelope's others behind it; all come, in order, once it is back."""
    await add_sink(town, receiver)
    hot = await town.create(100_000, 200)
    await asyncio.gather(*(town.open(hot, f"u{n}") for n in range(200)))
    events = await _lives(town, 10)
    receiver.answer = lambda _: 503
    async with delivering(town):
        async with asyncio.timeout(60):
            while (sink := await sink_of(town)).retried < 100 or sink.failing_since is None:
                await asyncio.sleep(0.02)
        receiver.answer = lambda _: 204
        await receiver.until(lambda: len(receiver.first()) == 202 + events)
        async with asyncio.timeout(60):
            while (sink := await sink_of(town)).retried:
                await asyncio.sleep(0.02)
    assert not sink.dead
    assert not list(out_of_order(receiver.accepted))


async def test_a_receiver_that_wants_no_more_may_say_so_to_a_retry(town: Town, receiver: Receiver) -> None:
    """410 counts for an event that is retried apart, too."""
    await add_sink(town, receiver)
    bad = await town.create(1_000, 4)
    answers = iter([500] * limits.APART_TRIES)
    receiver.answer = lambda events: next(answers, 410) if events[0]["id"] == f"{bad}.created" else 204
    async with delivering(town):
        async with asyncio.timeout(60):
            while (sink := await sink_of(town)).state != State.DISABLED:
                await _lives(town, 1)
    assert (sink.state, sink.retried) == (State.DISABLED, 1)
