"""Puts back into a copy of a SET the claims that the wallet has paid and the copy has lost: the end of its log.

A payout follows its commit in milliseconds, so the wallet knows nearly all of what the kept log of a lost SET lacks:
for each claim its seq (in the order number), receiver and amount. Put back before the copy is opened, these shares are
not free again, and nobody wins one whose order number is paid to somebody else.
"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from audit.proof import AuditTarget
from audit.snapshot import DayPart, day_parts, set_snapshot, snapshot
from envelope.claim_log import ClaimLog
from envelope.outcomes import Entry
from envelope.terms import Terms
from errors import InvariantBroken, Refused, Unavailable
from recovery.compared import compared
from recovery.limits import NAMED, ROWS_AT_ONCE
from runtime import postgres, sql
from runtime.clock import from_ms
from runtime.postgres import Connection
from runtime.wording import counted
from schema.headers import read_terms
from sharding.ids import slot_of
from wallet.postings import TransferKind

_TIMES = sql.read("audit", "order_times")
_PUT_BACK = sql.read("recovery", "put_back")
_NOT_UNIQUE, _DAY_CLOSED = "23505", "HB001"
_USER = "user:"
Row = tuple[int, int, int, int, str, str, int, datetime]
"""envelope_id, slot, seq, shares, kind, user_id, amount_fen, claimed_at."""
LogEntry = tuple[int, str, str, int, int]
"""seq, kind, user, amount_fen, at_ms."""


@dataclass
class LostClaims:
    """Claims that a SET lacks and that follow its logs: how many, and fen. What does not follow is left.

    `left_claims` of `left_count` envelopes are, of which `left` names NAMED.
    """

    number: int = 0
    fen: int = 0
    left: list[str] = field(default_factory=list)
    left_count: int = 0
    left_claims: int = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Count what an envelope lacks."""
        self.number += len(rows)
        self.fen += sum(row[6] for row in rows)

    def leave(self, envelope_id: int, claims: int, why: str) -> None:
        """Note an envelope of which so many claims cannot be put back."""
        self.left_count += 1
        self.left_claims += claims
        if len(self.left) < NAMED:
            self.left.append(f"{envelope_id}: {why}")


async def find_lost_claims(target: AuditTarget, wallet_dsn: str, lost: LostClaims) -> AsyncGenerator[list[Row]]:
    """Yield, by envelope, the claims that the wallet has paid and the SET at `target` lacks, and count them in `lost`.

    Reads only, as the audit's role. Each envelope is replayed with them: from the first that does not follow from its
    seed, or is behind a gap, they are left and named. There is a gap where a payer had several calls in flight, and the
    wallet has only the later one. Raises Unavailable if a database is away, or goes away meanwhile.
    """
    with postgres.loss_told("while its logs were compared with the wallet; call it again"):
        async with AsyncExitStack() as stack:
            connection = await set_snapshot(stack, target.dsn)
            wallet = await snapshot(stack, wallet_dsn)
            for part in await day_parts(connection, target.on):
                # Of a day whose tables are set apart nothing is in the end of a log.
                if part.hot:
                    async for rows in _of_day(connection, wallet, part, lost):
                        lost.add(rows)
                        yield rows


async def put_back(owner_dsn: str, found: AsyncIterable[list[Row]]) -> None:
    """Write the claims of each envelope, all or none of them; their payouts are done, so no intent is written.

    What was written is durable, whatever happens then: called again, only the rest is found. Raises Unavailable
    `changed_meanwhile` if an envelope has got an entry since, as by its expiry; Refused `day_closed`.
    """
    with postgres.loss_told("while claims were put back; call it again, it goes on with the rest"):
        await _put_back(owner_dsn, found)


async def _put_back(owner_dsn: str, found: AsyncIterable[list[Row]]) -> None:
    async with postgres.connected(owner_dsn) as connection:
        rows: list[Row] = []
        async for some in found:
            rows += some
            if len(rows) >= ROWS_AT_ONCE:
                await _write(connection, rows)
                rows = []
        if rows:
            await _write(connection, rows)


async def _write(connection: Connection, rows: Sequence[Row]) -> None:
    try:
        await connection.fetchval(_PUT_BACK, *([*column] for column in zip(*rows, strict=True)))
    except Exception as error:
        match getattr(error, "sqlstate", ""):
            case str(state) if state == _NOT_UNIQUE:
                text = (
                    "an envelope has got another entry meanwhile; call it again, it goes on with what is missing then"
                )
                raise Unavailable("changed_meanwhile", text) from error
            case str(state) if state == _DAY_CLOSED:
                raise Refused("day_closed", f"nothing is written into a day that is closed: {error}") from error
        raise


async def _of_day(
    connection: Connection, wallet: Connection, part: DayPart, lost: LostClaims
) -> AsyncIterator[list[Row]]:
    async for envelope_id, header, logged, named, paid in compared(connection, wallet, part):
        entries = {row["seq"]: row for row in logged}
        numbered = {seq: row for row in paid if (seq := _seq_of(row["order_no"])) is not None}
        # The copy has served, or expired, an envelope whose paid claims were not back yet: their places are taken.
        taken = sum(seq in entries and not _is_of(row, entries[seq]) for seq, row in numbered.items())
        missing = {seq: numbered[seq] for seq in sorted(numbered) if seq not in entries}
        rows: list[Row] = []
        why = ""
        if missing:
            found = await wallet.fetch(_TIMES, [row["order_no"] for row in missing.values()])
            times = {row["order_no"]: row["at_ms"] for row in found}
            rows, why = _rebuilt(header, named, logged, missing, times)
        if taken or why:
            place = f"{counted(taken, 'paid claim')} in whose place another entry stands" if taken else ""
            lost.leave(envelope_id, taken + len(missing) - len(rows), "; ".join(filter(None, (place, why))))
        if rows:
            yield rows


def _seq_of(order_no: str) -> int | None:
    """Return the place in the log that an order number names; None if it is none that a setnode has made."""
    seq = order_no.partition(".")[2]
    return int(seq) if seq.isascii() and seq.isdigit() else None


def _is_of(paid: Any, entry: Any) -> bool:
    """Say whether an entry is what the wallet has paid under its number."""
    user = _user_of(paid) if paid["kind"] == TransferKind.CLAIM else ""
    return bool(entry["user_id"] == user and entry["amount_fen"] == paid["amount_fen"])


def _user_of(paid: Any) -> str:
    return str(paid["receiver"]).removeprefix(_USER)


def _rebuilt(
    header: Any, named: frozenset[str], logged: Sequence[Any], missing: Mapping[int, Any], times: Mapping[str, int]
) -> tuple[list[Row], str]:
    """Return the paid claims that follow the envelope's log, up to the first that does not, and why that does not.

    `missing`: by seq, ascending; `times`: when each order was paid.
    """
    followed: list[LogEntry] = []
    why = ""
    try:
        terms = read_terms(header, named if header["named"] else None)
        entries = [(row["seq"], row["kind"], row["user_id"], row["amount_fen"], row["at_ms"]) for row in logged]
        added = [_entry(terms, seq, row, times[row["order_no"]]) for seq, row in missing.items()]
        log = ClaimLog(terms)
        log.restore(entries)
        after_ms = entries[-1][-1] if entries else 0
        try:
            for one in added:
                # Dense, unique by user, every amount the seed's: else the wallet has paid what it cannot have said.
                log.restore([one])
                followed.append(one)
        except InvariantBroken as broken:
            why = f"{counted(len(added) - len(followed), 'paid claim')} from {added[len(followed)][0]} on: {broken}"
        slot = slot_of(terms.envelope_id)
        return [
            (terms.envelope_id, slot, seq, terms.count, kind, user, fen, from_ms(at_ms))
            for seq, kind, user, fen, at_ms in _dated(followed, after_ms)
        ], why
    except Exception as error:  # noqa: BLE001 - of any kind: rows edited by hand may hold anything
        return [], f"{counted(len(missing), 'paid claim')}: its rows cannot be read ({type(error).__name__}: {error})"


def _dated(entries: Sequence[LogEntry], after_ms: int) -> list[LogEntry]:
    """Date each entry no later than the next: one that was paid late, after a retry, had been decided before it."""
    dated: list[LogEntry] = []
    for seq, kind, user, fen, at_ms in reversed(entries):
        no_later_ms = min(at_ms, dated[-1][-1]) if dated else at_ms
        dated.append((seq, kind, user, fen, max(no_later_ms, after_ms)))
    return dated[::-1]


def _entry(terms: Terms, seq: int, row: Any, paid_at_ms: int) -> LogEntry:
    """Return a claim as its log has it. It was decided a little before it was paid, and before its envelope's end."""
    if row["kind"] == TransferKind.CLAIM:
        at_ms = max(terms.opens_at_ms, min(paid_at_ms, terms.expires_at_ms - 1))
        return seq, Entry.OPEN.value, _user_of(row), row["amount_fen"], at_ms
    kind = Entry.EXPIRED if paid_at_ms >= terms.expires_at_ms else Entry.CANCELED
    return seq, kind.value, "", row["amount_fen"], paid_at_ms
