"""The envelopes that are opened most: asked from every setnode server, which has them in memory."""

import asyncio

import aiohttp
import msgspec

from errors import Unavailable
from inspection.limits import ASK_S
from installation.access import Access
from runtime import tls
from runtime.tls_errors import sentence_of
from schema import names
from sharding.ids import day_of, slot_of
from wire.ask import ask
from wire.keys import LinkKey


class Hot(msgspec.Struct, frozen=True):
    """One envelope: opens in the last minute, requests that wait for it, and the table with its claims."""

    set: str
    server: str
    envelope_id: str
    table: str
    opened: int
    waiting: int
    shares_left: int


class _Answer(msgspec.Struct):
    envelope_id: int
    opened: int
    waiting: int
    shares_left: int


async def hottest(access: Access, top: int, only: str | None = None) -> list[Hot]:
    """Return the `top` of each server, or of one, hottest first.

    Raises Unavailable `server_away` if a server does not answer.
    """
    servers = [
        (one.name, server.name, server.url)
        for one in access.topology().sets
        for server in one.servers
        if only in (None, server.name)
    ]
    timeout = aiohttp.ClientTimeout(total=ASK_S)
    async with tls.session(access.tls, timeout=timeout) as session:
        asked = [_ask(session, access.operator_key(), url, server, top) for _, server, url in servers]
        answers = await asyncio.gather(*asked)
    found = [
        _hot(set_name, server, one)
        for (set_name, server, _), some in zip(servers, answers, strict=True)
        for one in some
    ]
    return sorted(found, key=lambda one: (-one.opened - one.waiting, one.envelope_id))


async def _ask(session: aiohttp.ClientSession, key: LinkKey, url: str, server: str, top: int) -> list[_Answer]:
    try:
        return msgspec.json.decode(
            await ask(session, key, server, f"{url}/admin/hot", {"top": str(top)}), type=list[_Answer]
        )
    except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
        why = sentence_of(error, url) or str(error) or type(error).__name__
        raise Unavailable("server_away", f"{server} does not answer: {why}") from error


def _hot(set_name: str, server: str, one: _Answer) -> Hot:
    table = names.leaf(names.TableKind.CLAIM, slot_of(one.envelope_id), day_of(one.envelope_id))
    return Hot(set_name, server, str(one.envelope_id), table, one.opened, one.waiting, one.shares_left)
