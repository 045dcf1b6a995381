"""X-Request-Id: taken in if it is fit, sent back, and a thread from the client through the logs of both ends."""

import asyncio
import re
from typing import Any

import msgspec
import pytest

from errors import InvariantBroken, Refused, Unavailable
from gateway import access_log, failure_log
from gateway.limits import FAILURES_PER_S
from gateway.service import running as running_gateway
from runtime.logs import Budget
from tests.integration.gateway.fixtures import Door, door, silent, some_id
from tests.link_keys import GATEWAY_KEY
from wire import server
from wire.link import Link
from wire.messages import Op

__all__ = ["door"]


class Recorder:
    """In place of a module's logger: keeps what it is told. Another test may have set structlog up for good."""

    def __init__(self, room: str, lines: list[dict[str, Any]]) -> None:
        self._room = room
        self._lines = lines

    def __getattr__(self, level: str) -> Any:
        def write(event: str, **values: Any) -> None:
            self._lines.append({"event": event, "log_level": level, "room": self._room, **values})

        return write


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What gateway and link ends log during a test."""
    found: list[dict[str, Any]] = []
    for module, room in ((failure_log, "gateway"), (access_log, "access"), (server, "wire")):
        monkeypatch.setattr(module, "_log", Recorder(room, found))
    monkeypatch.setattr(server, "_failures", Budget(1_000))
    return found


async def told(door: Door, path: str, given: str | None, method: str = "GET") -> tuple[int, str, Any]:
    sent = {} if given is None else {"X_Request_Id": given}
    status, headers, body = await door.call(method, path, "bob", **sent)
    return status, headers["X-Request-Id"], body


async def test_a_fit_id_is_taken_over(door: Door) -> None:
    """On success and in problems, in header and body."""
    for given in ("a", "Z-9_.", "x" * 64, "3f2504e0-4f89-11d3-9a0c-0305e82c3301"):
        assert (await told(door, "/v1/me/wallet", given))[1] == given
        status, found, body = await told(door, "/v1/nothing", given)
        assert (status, found, body["request_id"]) == (404, given, given)


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a/b", 'a"b', "a,b", "ä", "a\tb", "{}", "a%0d%0ab"])
async def test_another_one_is_ignored(door: Door, given: str) -> None:
    """It is neither refused nor sent back; ours differs from request to request."""
    first, second = [(await told(door, "/v1/me/wallet", given))[1] for _ in range(2)]
    assert first != second
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]+", first)


def fail(error: Exception) -> Any:
    def answer(*_: Any) -> None:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "status", "level"),
    [
        (Unavailable("database_unavailable", "postgres is away"), 503, "warning"),
        (Unavailable("outcome_unknown", "who knows", outcome_known=False), 504, "warning"),
        (InvariantBroken("header_is_sealed", "edited"), 500, "error"),
    ],
)
async def test_a_failure_is_found_in_the_logs_of_both_ends(
    door: Door, error: Exception, status: int, level: str, lines: list[dict[str, Any]]
) -> None:
    """From the client's ID to the gateway's line, from its `server` and `call` to the line of that server."""
    for peer in door.servers.values():
        peer.answer = fail(error)
    one = some_id()
    lines.clear()
    answered = await told(door, f"/v1/envelopes/{one}/open", "my-request", "POST")
    assert answered[0] == status
    (line,) = [line for line in lines if line["event"] == "answered"]
    assert line["log_level"] == level
    expected = {
        "request_id": "my-request", "operation": "openEnvelope", "status": status, "envelope": one, "set": "set-1",
        "code": error.code,
    }  # fmt: skip
    assert {name: line[name] for name in expected} == expected
    assert line["ms"] >= 0
    (server,) = [name for name, peer in door.servers.items() if peer.asked]
    assert line["server"] == server
    (theirs,) = [line for line in lines if line["event"] == "call failed"]
    assert (theirs["call"], theirs["code"], theirs["room"]) == (line["call"], error.code, "wire")
    assert re.fullmatch(r"127\.0\.0\.1:\d+-\d+", theirs["call"])


async def test_two_links_of_one_host_have_names_of_their_own(door: Door, lines: list[dict[str, Any]]) -> None:
    """Two gateways on one machine: the same number at the same server is another call."""
    for peer in door.servers.values():
        peer.answer = fail(Unavailable("database_unavailable", "away"))
    calls = []
    for _ in range(2):
        async with running_gateway(door.gateway.settings) as gateway:
            door.url = f"http://127.0.0.1:{gateway.port}"
            await door.until_ready()
            lines.clear()
            await told(door, f"/v1/envelopes/{some_id()}/open", None, "POST")
            calls += [line["call"] for line in lines if line["event"] == "call failed"]
            keep = calls[-1].partition("-")[0]
            assert keep in {link._end for link in gateway.sets.routing.servers.links()}
    assert len({one.partition("-")[0] for one in calls}) == 2


async def test_a_call_that_nobody_answers_has_a_name(
    door: Door, monkeypatch: pytest.MonkeyPatch, lines: list[dict[str, Any]]
) -> None:
    """At its deadline the gateway names server and call: the server's log says nothing of it, and that tells, too."""
    for peer in door.servers.values():
        peer.answer = silent
    for link in door.gateway.sets.routing.servers.links():
        monkeypatch.setattr(link, "_deadline_s", 0.2)
    lines.clear()
    assert (await told(door, f"/v1/envelopes/{some_id()}/open", "late", "POST"))[0] == 504
    (line,) = [line for line in lines if line["event"] == "answered"]
    assert (line["request_id"], line["code"]) == ("late", "outcome_unknown")
    assert line["ms"] >= 200
    assert line["call"]


async def test_a_create_that_fails_says_which_envelope_and_a_wallet_that_does_that_it_was_it(
    door: Door, lines: list[dict[str, Any]]
) -> None:
    """Where the path has no ID, the call has; without an envelope there is no SET."""
    for peer in (*door.servers.values(), door.wallet):
        peer.answer = fail(Unavailable("database_unavailable", "away"))
    lines.clear()
    body = {"kind": "equal", "total_fen": 2, "count": 2}
    assert (await door.call("POST", "/v1/envelopes", "bob", body, Idempotency_Key="k"))[0] == 503
    assert (await door.call("GET", "/v1/me/wallet", "bob"))[0] == 503
    create, wallet = [line for line in lines if line["event"] == "answered"]
    assert (create["operation"], create["set"]) == ("createEnvelope", "set-1")
    assert int(create["envelope"]) in [args[3][0] for peer in door.servers.values() for _, args in peer.asked]
    assert (wallet["operation"], wallet["server"], "envelope" in wallet) == ("getWallet", "wallet", False)


async def test_what_users_do_wrong_is_not_logged(door: Door, lines: list[dict[str, Any]]) -> None:
    """4xx and outcomes leave no line at either end."""
    for peer in door.servers.values():
        peer.answer = fail(Refused("not_the_sender", "not yours"))
    lines.clear()
    assert (await door.call("POST", f"/v1/envelopes/{some_id()}/cancel", "bob"))[0] == 403
    assert (await door.call("GET", "/v1/nothing", "bob"))[0] == 404
    assert [line for line in lines if line["event"] in ("answered", "call failed")] == []


async def test_a_crowd_of_failures_does_not_fill_the_log(door: Door, lines: list[dict[str, Any]]) -> None:
    """At most so many lines in a second; the next one says how many are missing."""
    for peer in door.servers.values():
        peer.answer = fail(Unavailable("busy", "full"))
    lines.clear()
    await asyncio.gather(*(told(door, f"/v1/envelopes/{some_id()}/open", None, "POST") for _ in range(200)))
    said = [line for line in lines if line["event"] == "answered"]
    assert 0 < len(said) <= 3 * FAILURES_PER_S
    await asyncio.sleep(1.0)
    await told(door, f"/v1/envelopes/{some_id()}/open", None, "POST")
    said = [line for line in lines if line["event"] == "answered"]
    assert len(said) + sum(line.get("left_out", 0) for line in said) == 201


def test_a_budget_by_the_second() -> None:
    """So many in each second of the clock, and none is forgotten."""
    now = [5.0]
    budget = Budget(2, lambda: now[0])
    assert [budget.spend() for _ in range(5)] == [0, 0, None, None, None]
    now[0] = 6.1
    assert [budget.spend() for _ in range(3)] == [3, 0, None]
    now[0] = 7.0
    assert budget.spend() == 1


async def test_an_access_log_where_it_is_asked_for(door: Door, lines: list[dict[str, Any]]) -> None:
    """Each request with its ID, without its query; without the setting there is none."""
    lines.clear()
    await told(door, "/v1/me/wallet", "quiet")
    assert [line for line in lines if line["event"] == "request"] == []
    settings = msgspec.structs.replace(door.gateway.settings, access_log=True)
    async with running_gateway(settings) as gateway:
        door.url = f"http://127.0.0.1:{gateway.port}"
        await door.until_ready()
        one = some_id()
        lines.clear()
        await told(door, f"/v1/envelopes/{one}?share_token=secret", "mine")
        await told(door, "/" + "x" * 500, "long")
    found = {line["request_id"]: line for line in lines if line["event"] == "request"}
    assert (found["mine"]["method"], found["mine"]["path"], found["mine"]["status"]) == (
        "GET", f"/v1/envelopes/{one}", 200
    )  # fmt: skip
    assert found["mine"]["address"] == "127.0.0.1"
    assert len(found["long"]["path"]) == 200
    assert "secret" not in str(lines)


def test_a_link_has_no_name_before_it_is_connected() -> None:
    """An error that it raises itself names the server, and no call: none was made."""
    link = Link("a", "http://127.0.0.1:9", key=GATEWAY_KEY)
    with pytest.raises(Unavailable) as refused:
        link.call(Op.OPEN)
    assert (refused.value.peer, refused.value.call) == ("a", "")
