"""What the journal says, compared with the rows; asked again; and the audit of the whole."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from hosts.drill.journal import Journal
from hosts.drill.load import Load
from installation.access import Access
from runtime import postgres

_CLAIMS = """-- claims_of: who has which share of these envelopes. Index: the key of each day's table. Lock: none.
SELECT envelope_id, user_id, amount_fen FROM claim WHERE envelope_id = ANY($1::bigint[]) AND kind = 'open'"""
_AT_ONCE = 500
ASKED_AGAIN = 3_000
"""Users who are asked again after a step: all who were answered during it, the last ones of so many."""
SETTLE_S = 60.0


@dataclass
class Found:
    """What a proof found: `missing` are answers without a row, `wrong` those that differ from it or from each other."""

    missing: int = 0
    wrong: int = 0
    audit_violations: int = 0
    sentences: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing was lost and nothing differs."""
        return not (self.missing or self.wrong or self.audit_violations)


async def prove(load: Load, *, everything: bool = False) -> Found:
    """Prove what was told since the last proof (`everything`: since the beginning). No user is under way."""
    journal, found = load.journal, Found()
    await _compare(load.access, journal, journal.won if everything else journal.touched, found)
    await load.ask_again(journal.recent[-ASKED_AGAIN:])
    journal.touched.clear()
    journal.recent.clear()
    found.wrong += len(journal.wrong)
    found.sentences += journal.wrong
    journal.wrong.clear()
    await _audit(load.access, found)
    return found


async def _compare(access: Access, journal: Journal, which: Iterable[int], found: Found) -> None:
    topology = access.topology()
    by_set: dict[str, list[int]] = {}
    for envelope_id in which:
        by_set.setdefault(topology.set_for(envelope_id).name, []).append(envelope_id)
    for name, envelopes in by_set.items():
        async with postgres.connected(access.set_dsn(name)) as connection:
            for some in _chunks(envelopes):
                rows: dict[int, dict[str, int]] = {}
                for row in await connection.fetch(_CLAIMS, some):
                    rows.setdefault(row["envelope_id"], {})[row["user_id"]] = row["amount_fen"]
                for one in some:
                    _compare_one(one, journal, rows.get(one, {}), found)


def _compare_one(envelope_id: int, journal: Journal, rows: dict[str, int], found: Found) -> None:
    for user, amount_fen in journal.won.get(envelope_id, {}).items():
        if user not in rows:
            found.missing += 1
            found.sentences.append(f"{user} was told of {amount_fen} fen of {envelope_id}, and there is no row")
        elif rows[user] != amount_fen:
            found.wrong += 1
            found.sentences.append(f"{user} was told of {amount_fen} fen of {envelope_id}, the row has {rows[user]}")
    for user in journal.refused.get(envelope_id, set()) & rows.keys():
        found.wrong += 1
        found.sentences.append(f"{user} was told that no share of {envelope_id} is left, and has a row")


async def _audit(access: Access, found: Found) -> None:
    """Audit until nothing is in flight, SETTLE_S at most: what is later still on its way is told as well."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLE_S
    while True:
        report = await access.audit()
        if not report.holds:
            found.audit_violations += report.count
            found.sentences += [f"audit: {one.check} {one.subject}: {one.detail}" for one in report.violations[:20]]
            return
        if not report.sums.in_flight:
            return
        if loop.time() > end:
            found.audit_violations += 1
            found.sentences.append(f"audit: {report.sums.in_flight} payouts are in flight after {SETTLE_S:g} s of rest")
            return
        await asyncio.sleep(0.3)


def _chunks(envelopes: list[int]) -> Iterator[list[int]]:
    left = iter(envelopes)
    while some := list(islice(left, _AT_ONCE)):
        yield some
