"""Headers written anew without a name: what they say afterwards, their seal, and the hash that the wallet keeps.

A header is written anew only if seal and hash are right before: nothing that was changed by hand is made believable.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from envelope.header_hash import header_hash, header_hashes
from envelope.terms import Terms
from errors import HongbaoError, Refused
from runtime import sql
from runtime.postgres import Connection
from schema.headers import read_terms
from setnode.header_seal import HeaderSeal
from users.limits import BATCH

_FUNDS = sql.read("users", "funds")
_ORDERS = sql.read("users", "orders")


@dataclass(frozen=True)
class Names:
    """Who is forgotten: the name before and after, and the account's number; None for one who never had an account."""

    before: str
    after: str
    account_id: int | None


@dataclass
class Headers:
    """Headers that change: by ID the seal afterwards; those that the user sent; by ID the hashes before and after."""

    seals: dict[int, str | None] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    hashes: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)


async def write_anew(
    wallet: Connection, rows: Collection[Any], receivers: Mapping[int, Collection[str]], names: Names, seal: HeaderSeal
) -> Headers:
    """Return what becomes of these headers; `receivers` are those named by each. Raises Refused `header_differs`."""
    anew = Headers()
    waiting = list(rows)
    for start in range(0, len(waiting), BATCH):
        some = waiting[start : start + BATCH]
        funds = {row["envelope_id"]: row for row in await wallet.fetch(_FUNDS, [row["envelope_id"] for row in some])}
        for row in some:
            _one(
                row, frozenset(receivers.get(row["envelope_id"], ())), funds.get(row["envelope_id"]), names, seal, anew
            )
    return anew


def _one(row: Any, named: frozenset[str], fund: Any, names: Names, seal: HeaderSeal, anew: Headers) -> None:
    envelope_id = row["envelope_id"]
    # Not by the name alone: an account that began under it meanwhile keeps its envelopes.
    sent = row["sender"] == names.before and fund is not None and fund["user_account"] == names.account_id
    invited = bool(row["named"]) and names.before in named
    if not sent and not invited:
        return
    try:
        before = read_terms(row, named if row["named"] else None)
        seal.check(before)
    except (HongbaoError, ValueError) as error:
        raise _differs(envelope_id, str(error)) from error
    after = _renamed(before, names, sent=sent)
    hashed = header_hash(after)
    anew.seals[envelope_id] = None if before.seal is None else seal.of(hashed)
    if sent:
        anew.sent.add(envelope_id)
    stored = b"" if fund is None else fund["header_hash"]
    # Not of a fund older than hashes, and not of a header that the sweeper wrote: another one was paid for.
    if stored and before.create_key:
        if stored != hashed and stored not in header_hashes(before):
            raise _differs(envelope_id, "it is not the one that was paid for")
        anew.hashes[envelope_id] = stored, hashed


def _renamed(terms: Terms, names: Names, *, sent: bool) -> Terms:
    if sent:
        terms = msgspec.structs.replace(terms, sender=names.after, greeting="")
    if terms.invited is not None:
        invited = frozenset(names.after if one == names.before else one for one in terms.invited)
        terms = msgspec.structs.replace(terms, invited=invited)
    return terms


def _differs(envelope_id: int, why: str) -> Refused:
    sentence = (
        f"the header of envelope {envelope_id} was changed by hand ({why}); it was not sealed anew: run the audit"
    )
    return Refused("header_differs", sentence)


async def own_claims(wallet: Connection, claims: Mapping[str, Any], names: Names) -> list[Any]:
    """Return those of the claims, by order number, whose money stands in the history of the account."""
    own, orders = [], list(claims)
    for start in range(0, len(orders), BATCH):
        rows = await wallet.fetch(_ORDERS, orders[start : start + BATCH])
        own += [claims[row["order_no"]] for row in rows if row["user_account"] == names.account_id]
    return own
