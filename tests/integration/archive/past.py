"""A town whose first day holds one envelope of each kind, all closed and paid, to be made cold step by step.

A test module imports `past` and names it in `__all__`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from archive.export import export_database
from archive.place import Root
from archive.verify import verify_database
from audit.proofs import Proofs
from audit.report import Report
from errors import HongbaoError
from sharding.ids import business_date
from tests.clock import ManualClock
from tests.conftest import Databases
from tests.integration.archive.fixtures import KEY, drop, move_on, owner
from tests.integration.setnode.fixtures import XXS, Town, living_town, prove
from wire.messages import Op

VIEWERS = [(user, token) for user in ("sender", "ann", "bob", "u0", "eve") for token in (True, False)]


@dataclass
class Past:
    """A town of two servers whose first day holds one envelope of each kind, all closed and paid."""

    town: Town
    folder: Root
    day: date
    proofs: Path
    envelopes: dict[str, int] = field(default_factory=dict)
    replay: list[Any] = field(default_factory=list)

    @property
    def owner(self) -> Any:
        assert self.town.databases is not None
        return owner(self.town.databases, self.town.set_dsn)

    async def hear(self, op: Op, envelope_id: int, user: str, token: bool, node: Any) -> Any:
        """Return the detail, or the code of the refusal."""
        args = [envelope_id, user, token] if op is Op.DETAIL else [envelope_id, user]
        try:
            return (await self.town.caller.ask(node, op, args))[0]
        except HongbaoError as error:
            return error.code

    async def everything(self) -> dict[tuple[str, str, bool, str], Any]:
        """What everybody is told of every envelope by the server that owns it."""
        return {
            (name, user, token, op.name): await self.hear(op, one, user, token, self.town.owner(one))
            for name, one in self.envelopes.items()
            for user, token in VIEWERS
            for op in (Op.DETAIL, Op.CANCEL)
            if op is Op.DETAIL or token
        }

    async def audit(self) -> Report:
        """Audit with what earlier audits have proven."""
        return await self.town.audit(proofs=Proofs(self.proofs, KEY))

    async def look(self) -> None:
        for node in self.town.nodes:
            await node.days.look()

    async def archive(self) -> None:
        """Export and verify all databases."""
        async with self.owner as connection:
            for xx in XXS:
                made = await export_database(connection, self.folder, KEY, xx=xx, day=self.day, proof=None)
                await move_on(connection, self.day, xx, "exported", made.digest)
                await verify_database(connection, self.folder, KEY, xx=xx, day=self.day)
                await move_on(connection, self.day, xx, "verified")

    async def drop(self) -> None:
        async with self.owner as connection:
            for xx in XXS:
                await drop(connection, self.day, xx)


@pytest.fixture
async def past(databases: Databases, memcached: str, tmp_path: Path) -> AsyncIterator[Past]:
    async with past_with(databases, memcached, tmp_path, tmp_path / "archive") as one:
        yield one


@asynccontextmanager
async def past_with(databases: Databases, memcached: str, tmp_path: Path, folder: Root) -> AsyncIterator[Past]:
    """The past whose archive is at a place, not written yet."""
    clock = ManualClock(datetime.now(UTC))
    settings = {"archive": str(folder), "archive_key": KEY.decode()}
    async with living_town(databases, memcached, tmp_path, clock, **settings) as town:
        one = Past(town, folder, business_date(clock.now()), tmp_path / "proofs.json")
        await fill(one)
        clock.advance(days=1)
        for node in town.nodes:
            while (await node.expiry.run_once()).closed:
                pass
        await prove(town)
        assert not await town.scalar("SELECT count(*) FROM due")
        yield one
        await prove(town)


async def fill(past: Past) -> None:
    town, made = past.town, past.envelopes
    made["sold out"] = await town.create(500, 5, greeting="恭喜发财 🧧")
    for n in range(5):
        await town.open(made["sold out"], f"u{n}")
    made["canceled"] = await town.create(500, 5)
    await town.open(made["canceled"], "u0")
    await town.cancel(made["canceled"], "sender")
    made["never opened"] = await town.create(100, 3)
    made["half"] = await town.create(1_000, 10)
    for n in range(4):
        await town.open(made["half"], f"u{n}")
    made["named"] = await town.create(200, 2, to=["ann", "bob"])
    await town.open(made["named"], "ann", token_ok=False)
    made["spoken"] = await town.create(300, 3, password="芝麻开门")
    await town.open(made["spoken"], "u0", password="芝麻开门")
    await town.open(made["spoken"], "u1", password="wrong")
    made["large"] = await town.create(30_000, 300)
    for n in range(150):
        await town.open(made["large"], f"u{n}")
    await town.deposit("again", 700)
    past.replay = town.create_args("again", 700, 7, "the same key")
    _, _, view = await town.caller.ask(town.owner(past.replay[3][0]), Op.CREATE, past.replay)
    made["repeated"] = int(view["envelope_id"])
    past.replay.append(view)
