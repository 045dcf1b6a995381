"""`hongbao verify-split`: recomputes the amounts of a closed envelope from its seed."""

import asyncio
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import click
import msgspec

from cli.envelope_id import read_envelope_id
from envelope.money import yuan
from envelope.verify import Verification, verify
from errors import Refused, Unavailable
from gateway.identity.share_tokens import is_share_id
from installation.finding import find
from runtime.reporting import data_option, json_option, print_report
from runtime.unreadable import UNREADABLE
from runtime.wording import counted
from sharding.ids import format_id
from sharding.slots import MAX_SLOTS, Layout

FETCH_S = 10.0
PAGE = 1_000
"""Claims fetched at once: the longest page that a gateway gives."""
SHOWN = 20
"""Amounts printed; --json has all."""


ANY_SLOT = Layout(MAX_SLOTS)
"""The gateway knows which slots there are."""


@click.command("verify-split")
@click.argument("what", metavar="FILE|ID")
@click.option("--as", "user", help="With an ID: the user who asks; the sender, a winner, or somebody named in it.")
@data_option
@json_option
def command(*, what: str, user: str | None, data: Path | None, as_json: bool) -> None:
    """Check that nobody was favoured: every amount follows from the seed that was fixed at creation.

    FILE is the JSON that GET /v1/envelopes/ID returns once the envelope is closed, with all its claims ("-": standard
    input); with an ID it is fetched from the running stack. Exit status 1 if an amount or the commitment does not
    match.
    """
    named = what.isdecimal() or is_share_id(what)
    document = asyncio.run(_fetch(data, what, user)) if named and not Path(what).exists() else _read(what)
    result = verify(document)
    print_report(_as_json(result), as_json=as_json, show=lambda _: _show(result))
    sys.exit(0 if result.holds else 1)


def _read(name: str) -> dict[str, Any]:
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return msgspec.json.decode(raw, type=dict[str, Any])
    except OSError as error:
        raise Refused("unreadable_file", f"cannot read {name}: {error.strerror}") from error
    except UNREADABLE as error:
        raise Refused("malformed_document", f"{name} is not the JSON of an envelope: {error}") from error


async def _fetch(data: Path | None, what: str, user: str | None) -> dict[str, Any]:
    access = find(data)
    envelope_id = format_id(read_envelope_id(what, access, ANY_SLOT))
    if user is None:
        raise Refused("no_user", "add --as USER: the sender, a winner or a named receiver of the envelope")
    headers = {"Authorization": f"Bearer {access.token(user)}"}
    url, claims, document = f"{access.gateway_url}/v1/envelopes/{envelope_id}", [], dict[str, Any]()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=FETCH_S), headers=headers) as session:
        cursor: str | None = ""
        while cursor is not None:
            document = await _page(session, url, cursor)
            claims += document.get("claims", ())
            cursor = document.get("next_cursor")
    return {**document, "claims": claims}


async def _page(session: aiohttp.ClientSession, url: str, cursor: str) -> dict[str, Any]:
    """Return the envelope with one page of its claims."""
    parameters = {"limit": str(PAGE), **({"cursor": cursor} if cursor else {})}
    try:
        async with session.get(url, params=parameters) as response:
            document = msgspec.json.decode(await response.read(), type=dict[str, Any])
    except (aiohttp.ClientError, TimeoutError) as error:
        why = str(error) or "it is silent"  # of a timeout there is no text
        raise Unavailable("gateway_away", f"the gateway does not answer at {url}: {why}; is it up?") from error
    except UNREADABLE:
        text = f"what answers at {url} with {response.status} is no gateway of hongbao: it sent no JSON object"
        raise Unavailable("gateway_away", text) from None
    if response.status != HTTPStatus.OK:
        raise Refused(
            document.get("code", "refused"), document.get("detail", "the gateway did not return the envelope")
        )
    return document


def _as_json(result: Verification) -> dict[str, Any]:
    return {
        "envelope_id": result.envelope_id,
        "holds": result.holds,
        "split": result.split.value,
        "amounts_fen": list(result.amounts_fen),
        "mismatches": list(result.mismatches),
    }


def _show(result: Verification) -> None:
    if result.holds:
        more = ", …" if len(result.amounts_fen) > SHOWN else ""
        shares = ", ".join(map(yuan, result.amounts_fen[:SHOWN])) + more
        every = counted(len(result.amounts_fen), "share")
        click.echo(f"{result.envelope_id}: {every}, all as the seed gives them by {result.split}")
        click.echo(f"yuan, in order of opening: {shares}")
    for sentence in result.mismatches:
        click.echo(f"{click.style('mismatch', fg='red')}: {sentence}")
