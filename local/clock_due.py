"""What became due by a move of a sandbox's clock and is still on its way: envelopes to close, payouts, tables."""

import asyncio
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

import msgspec

from installation.access import Access
from runtime import postgres
from runtime.wording import counted
from schema import roles
from schema.day_tables import known_days
from sharding.slots import slots_of

AHEAD_DAYS = 1
"""Days after today that must have tables, too, before a move is over."""
_DUE = "SELECT count(*) FROM due WHERE expires_at <= $1 AND envelope_id % 1000 = ANY($2::bigint[])"
_UNPAID = "SELECT coalesce(sum(cardinality(seqs)), 0)::bigint FROM payout_batch WHERE batch_id <= $1"
_LAST = "SELECT coalesce(max(batch_id), 0) FROM payout_batch"


class Left(msgspec.Struct, frozen=True):
    """What is still on its way. `envelopes`: past their time and not closed; `payouts`: not credited yet.

    `without_tables`: SETs in which today, or tomorrow, has no tables; `why`: what stands in their way.
    """

    envelopes: int = 0
    payouts: int = 0
    without_tables: list[str] = []
    why: str = ""

    @property
    def nothing(self) -> bool:
        """Whether all is done."""
        return not (self.envelopes or self.payouts or self.without_tables)

    def sentence(self) -> str:
        """Say it to a person."""
        tables = f"tables of the day in {', '.join(self.without_tables)}" if self.without_tables else ""
        tables += f" ({self.why})" if tables and self.why else ""
        envelopes = f"{counted(self.envelopes, 'envelope')} past their time" if self.envelopes else ""
        payouts = f"{counted(self.payouts, 'payout')}" if self.payouts else ""
        return ", ".join(filter(None, (envelopes, payouts, tables))) or "nothing"


@dataclass
class Due:
    """Asks the SETs for what was due at `there`, until nothing of it is left.

    Of payouts it asks for those that stand once all envelopes are closed: traffic that goes on makes new ones for ever.
    """

    access: Access
    there: datetime
    _last_batches: dict[str, int] = field(default_factory=dict)

    async def left(self) -> Left:
        """Ask all SETs at once. Raises Unavailable if one is away."""
        names = [one.name for one in self.access.topology().sets]
        found = await asyncio.gather(*(self._of_set(name) for name in names))
        without = [name for name, (_, _, tables) in zip(names, found, strict=True) if not tables]
        return Left(sum(one[0] for one in found), sum(one[1] for one in found), without)

    async def _of_set(self, name: str) -> tuple[int, int, bool]:
        topology = self.access.topology()
        # A database that has moved away leaves copies of its rows for a while; the SET that has it closes them.
        slots = [slot for xx in topology.databases_of(name) for slot in slots_of(xx)]
        async with postgres.connected(self.access.set_dsn(name, roles.AUDIT)) as connection:
            envelopes = int(await connection.fetchval(_DUE, self.there, slots))
            if not envelopes and name not in self._last_batches:
                self._last_batches[name] = int(await connection.fetchval(_LAST))
            # While envelopes are being closed every payout counts; then those that stood at the end of it.
            payouts = int(await connection.fetchval(_UNPAID, self._last_batches.get(name, 2**62)))
            tables = await known_days(connection)
        return envelopes, payouts, set(_days_from(self.access.today())) <= tables


def _days_from(today: date) -> list[date]:
    return [today + timedelta(days=ahead) for ahead in range(AHEAD_DAYS + 1)]
