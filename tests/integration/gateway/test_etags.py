"""ETag and If-None-Match of details: 304 while nothing has changed, and a new tag for every change that is shown."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client import calls
from tests.integration.gateway.fixtures import Client, Door, RealStack, client, door, some_id
from wire.messages import Op
from wire.server import Caller

__all__ = ["client", "door"]

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


async def look(client: Client, path: str, user: str, known: str = "") -> tuple[int, str, Any]:
    sent = {"If_None_Match": known} if known else {}
    status, headers, told = await client.call("GET", path, user, **sent)
    assert status != 304 or ("Content-Length" not in headers and told == b"")
    return status, headers["ETag"], told


async def test_every_change_has_a_tag_and_nothing_else_has(client: Client, stack: RealStack) -> None:
    """Open, start, sell-out, refund: another tag each; the same tag is 304; pages and viewers have their own."""
    sender, user = (f"{who}-{uuid.uuid4().hex[:10]}" for who in ("sender", "user"))
    await stack.deposit(sender, 100_000)
    opens_at = datetime.now(UTC) + timedelta(seconds=1)
    made = await client.create(sender, kind="lucky", total_fen=300, count=3, opens_at=opens_at)
    path = f"/v1/envelopes/{made.envelope_id}?share_token={made.share_token}"
    tags = [(await look(client, path, sender))[1]]
    assert tags[0].startswith('W/"')

    async def changed() -> Any:
        """Wait for another tag; with it, and with it among others, the answer is 304."""
        async with asyncio.timeout(10):
            while (found := await look(client, path, sender, tags[-1]))[0] == 304:
                assert found[1] == tags[-1]
                await asyncio.sleep(0.05)
        status, tag, told = found
        assert status == 200
        assert tag not in tags
        tags.append(tag)
        for known in (tag, f'"x", {tag}', tag.removeprefix("W/"), "*"):
            assert (await look(client, path, sender, known))[:2] == (304, tag)
        for known in ('"x"', '"*"', "x", f'{tag[:-2]}"', '""', "W/", ",,,"):
            assert (await look(client, path, sender, known)) == (200, tag, told)
        return told

    assert (await changed())["status"] == "open"
    for number in range(2):
        await client.open(f"{user}-{number}", made)
        assert (await changed())["claimed_count"] == number + 1
    others = (await look(client, path, user))[1]
    assert others not in tags, "the sender is shown more"
    assert (await look(client, path, user, tags[-1]))[0] == 200
    assert (await look(client, f"{path}&limit=1", sender, tags[-1]))[0] == 200
    assert (await look(client, f"{path}&limit=1&cursor=1", sender, tags[-1]))[0] == 200
    await client.send(calls.cancel(made), sender)
    assert (await changed())["status"] == "canceled"


async def test_who_may_not_see_it_hears_no_tag(client: Client, stack: RealStack) -> None:
    """`*` and a right tag do not open an envelope to strangers."""
    sender = f"sender-{uuid.uuid4().hex[:10]}"
    await stack.deposit(sender, 1_000)
    made = await client.create(sender, kind="lucky", total_fen=300, count=3)
    path = f"/v1/envelopes/{made.envelope_id}"
    tag = (await look(client, path, sender))[1]
    for known in ("*", tag):
        status, headers, told = await client.call("GET", path, "stranger", If_None_Match=known)
        assert (status, told["code"], "ETag" in headers) == (403, "not_invited", False)


async def test_a_connection_goes_on_after_a_304(door: Door) -> None:
    """The answer ends with its head: the next one on the same connection is read from its first byte; HEAD as well."""

    def unchanged(peer: Caller, number: int, op: int, args: list[Any]) -> None:
        assert (op, args[5]) == (Op.DETAIL, ["a", "b"])
        peer.reply(number, None, False, "a")

    for peer in door.servers.values():
        peer.answer = unchanged
    token, port = door.token("bob"), door.gateway.port
    head = f'Host: x\r\nAuthorization: Bearer {token}\r\nIf-None-Match: "a", W/"b"\r\n\r\n'
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for method in ("GET", "HEAD", "GET"):
        writer.write(f"{method} /v1/envelopes/{some_id()} HTTP/1.1\r\n{head}".encode())
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert answer.startswith(b"HTTP/1.1 304 Not Modified\r\n")
        assert b'\r\nETag: W/"a"\r\n' in answer
        assert b"Content-Length" not in answer
    writer.close()
    await writer.wait_closed()


async def test_a_crowd_of_tags_is_cut(door: Door) -> None:
    """Of many tags the first are compared; other operations do not look at the header."""
    many = ", ".join(f'"{number}"' for number in range(100))
    assert (await door.call("GET", f"/v1/envelopes/{some_id()}", "bob", If_None_Match=many))[0] == 200
    asked = [args for peer in door.servers.values() for _, args in peer.asked]
    assert asked[0][5] == ["0", "1", "2", "3"]
    assert (await door.call("GET", "/v1/me/wallet", "bob", If_None_Match="*"))[0] == 200
