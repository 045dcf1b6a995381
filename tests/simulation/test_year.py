"""A year and more of days, all month lengths and a leap day among them: every day is lived, rotated and dropped.

One setnode, one database of ten slots and the wallet, on a clock that the test moves. People send, open, cancel and
come too late; the daemon rotates. At the end every fen that anybody was told of is where it was told, and every
row that ever stood is in the archive.
"""

import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from errors import HongbaoError
from machine import ports
from rotation.daemon import Daemon, DaemonSettings
from rotation.limits import GRACE_DAYS
from rotation.set_access import SetAccess
from rotation.steps import Rotation
from runtime.clock import to_ms
from schema import roles
from schema.day_tables import DayTables
from schema.migrate import migrate_set, migrate_wallet
from setnode.service import running
from setnode.settings import SetnodeSettings
from sharding.ids import BUSINESS_ZONE, business_date, candidate_ids, first_id_at
from sharding.slots import Layout, place_for
from sharding.topology import ServerSpec, SetSpec, Topology, dump
from tests.clock import ManualClock
from tests.conftest import Databases
from tests.integration.rotation.fixtures import FileArchive, OldDays, believe_every_clock
from tests.integration.setnode.fixtures import KEY, PASSWORD_KEY, Town, wallet_process
from tests.link_keys import OPERATOR_KEY, accepts, setnode_key
from tests.sizes import sized
from wire.link import Link
from wire.orders import create_key
from wire.wallet import WalletClient

FIRST = date.fromordinal(sized(date(2027, 12, 20).toordinal(), date(2028, 1, 20).toordinal()))
DAYS = sized(400, 45)
"""45 days from FIRST on see the ends of a month of 31 and of one of 29 days, and most names twice."""
EVERY = 3
"""Days between two rounds of the daemon."""
SEED = 20271220
SMALL = Layout(10)

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900), pytest.mark.long]


class Year(Town):
    """A town of one server and ten slots; remembers what people were told."""

    luck: random.Random
    paid_in: Counter[date]
    balances: Counter[str]
    alive: list[tuple[int, str, date]]

    def create_args(self, sender: str, total_fen: int, count: int, key: str, **terms: Any) -> list[Any]:
        ids = candidate_ids(first_id_at(self.clock.now()), *place_for(sender, key, KEY, SMALL), 3)
        body = {
            "kind": "lucky", "split": "double_mean", "total_fen": total_fen, "count": count, "greeting": "",
            "expires_in_s": 86_400, **terms,
        }  # fmt: skip
        return [sender, create_key(sender, key), f"{total_fen}/{count}/{len(terms)}", ids, body]

    async def send(self, day: date) -> None:
        luck = self.luck
        sender, count = f"s{luck.randrange(5)}", luck.randint(1, 6)
        total = count * luck.randint(1, 300)
        terms: dict[str, Any] = {"expires_in_s": luck.choice((3_600, 86_400, 3 * 86_400))}
        if luck.random() < 0.2:
            terms["opens_at_ms"] = to_ms(self.clock.now() + timedelta(days=luck.randint(1, 3)))
        envelope_id = await self.create(total, count, sender=sender, key=f"{day}-{luck.random()}", **terms)
        self.paid_in[day] += total
        self.alive.append((envelope_id, sender, day))

    async def try_open(self, envelope_id: int, user: str) -> None:
        answer = await self.open(envelope_id, user)
        if answer["result"] == "opened":
            self.balances[user] += answer["amount_fen"]

    async def live(self, day: date) -> None:
        """What people do on one day, at once."""
        luck = self.luck
        await asyncio.gather(*(self.send(day) for _ in range(luck.randint(1, 4))))
        self.alive = [one for one in self.alive if (day - one[2]).days <= GRACE_DAYS - 1]
        await asyncio.gather(
            *(
                self.try_open(envelope_id, f"u{luck.randrange(20)}")
                for envelope_id, _, _ in self.alive
                for _ in range(luck.randint(0, 3))
            )
        )
        if luck.random() < 0.3:
            envelope_id, sender, _ = luck.choice(self.alive)
            with contextlib.suppress(HongbaoError):  # already sold out
                await self.cancel(envelope_id, sender)

    async def settle(self) -> None:
        """Let expiry close what has ended, and everything be paid."""
        node = self.nodes[0]
        async with asyncio.timeout(30):
            while await self.scalar("SELECT count(*) FROM due WHERE expires_at <= $1", self.clock.now()):
                await node.expiry.run_once()
        await self.paid_out()


@contextlib.asynccontextmanager
async def small_town(databases: Databases, memcached: str, folder: Path, clock: ManualClock) -> AsyncIterator[Year]:
    set_dsn = await databases.clone("year", migrate_set)
    await believe_every_clock(databases.dsn_as(set_dsn, roles.OWNER))
    wallet_dsn = await databases.clone("wallet", migrate_wallet)
    await DayTables(databases.dsn_as(set_dsn, roles.OWNER), [0]).ensure(business_date(clock.now()))
    for dsn in (set_dsn, wallet_dsn):
        # Nobody pulls the plug in this year, and the disk is most of what it would wait for.
        connection = await asyncpg.connect(dsn)
        await connection.execute(f"ALTER DATABASE {urlsplit(dsn).path[1:]} SET synchronous_commit = off")
        await connection.close()
    wallet_port, port = ports.free_port(), ports.free_port()
    url = f"http://127.0.0.1:{wallet_port}"
    servers = (ServerSpec("set-1-a", f"http://127.0.0.1:{port}"),)
    dump(Topology(version=1, slots=10, sets=(SetSpec("set-1", servers),), wallet_url=url), folder / "t.json")
    settings = SetnodeSettings(
        listen=f"127.0.0.1:{port}", topology=str(folder / "t.json"), set="set-1", server="set-1-a", memcached=memcached,
        postgres_dsn=databases.dsn_as(set_dsn, roles.SETNODE), wallet_url=url, link_key=setnode_key().text,
        accept_keys=accepts("set-1-a"), password_key=PASSWORD_KEY,
        sweep_after_s=1e9,  # the wallet's rows carry the real time, this clock does not
    )  # fmt: skip
    async with (
        wallet_process(databases.dsn_as(wallet_dsn, roles.WALLET), wallet_port),
        running(settings, clock) as node,
    ):
        link = Link("wallet", url, key=OPERATOR_KEY)
        keeping = asyncio.ensure_future(link.maintain())
        async with asyncio.timeout(20):
            while not link.up or node.readiness.missing():
                await asyncio.sleep(0.01)
        year = Year([node], WalletClient(link), set_dsn, wallet_dsn, clock)
        year.databases = databases
        year.luck, year.paid_in, year.balances, year.alive = random.Random(SEED), Counter(), Counter(), []
        yield year
        await year.looks.close()
        keeping.cancel()
        await asyncio.wait({keeping})


async def test_days_are_lived_rotated_and_dropped(
    databases: Databases, memcached: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums equal to the fen, no row lost, no day left behind, and no name ever in the way of a day to come."""
    clock = ManualClock(datetime(FIRST.year, FIRST.month, FIRST.day, 2, tzinfo=UTC))
    started = time.monotonic()
    async with small_town(databases, memcached, tmp_path, clock) as year:
        days = OldDays(databases, year.set_dsn, year.wallet_dsn, tmp_path)
        set_access = SetAccess("set-1", days.set_access.dsn, days.set_access.wallet_dsn, lambda _: (0,))
        archive = FileArchive(tmp_path)
        daemon = Daemon(
            lambda: [Rotation(set_access, clock, archive)], lambda: BUSINESS_ZONE,
            DaemonSettings(rotate_drop=True, rotate_retention_days=15),
        )  # fmt: skip
        lived = [FIRST + timedelta(days=number) for number in range(DAYS)]
        for number, day in enumerate(lived):
            clock.advance(seconds=(_at(day, year.luck) - clock.now()).total_seconds())
            await year.live(day)
            if number % EVERY == 0:
                await _keep(year, daemon)
        for _ in range(9):
            clock.advance(days=EVERY)
            await year.settle()
            await _keep(year, daemon)
        register = {row["day"]: row for row in await year.rows("SELECT * FROM day_register ORDER BY day")}
        assert [day for day in lived if register[day]["state"] != "dropped"] == []
        assert {day: row["paid_in_fen"] for day, row in register.items() if row["paid_in_fen"]} == dict(year.paid_in)
        rows = Counter[str]()
        for day, row in register.items():
            told = await _archived(archive, day)
            assert (told.envelopes, told.claims, told.paid_in_fen) == (
                row["envelopes"],
                row["claims"],
                row["paid_in_fen"],
            )
            rows.update(envelopes=told.envelopes, claims=told.claims, paid_in_fen=told.paid_in_fen)
            rows.update(claimed_fen=told.claimed_fen, refunded_fen=told.refunded_fen)
        assert rows["claimed_fen"] == year.balances.total()
        assert rows["paid_in_fen"] == year.paid_in.total() == rows["claimed_fen"] + rows["refunded_fen"]
        for user, fen in year.balances.items():
            assert await year.wallet.balance(user) == fen, user
        senders = [await year.wallet.balance(f"s{number}") for number in range(5)]
        assert sum(senders) == rows["refunded_fen"]
        assert await year.scalar("SELECT count(*) FROM account WHERE kind = 1 AND balance_fen <> 0", wallet=True) == 0
        paid = await year.scalar("SELECT count(*) FROM transfer WHERE kind IN (2, 3)", wallet=True)
        assert paid == rows["claims"]
        assert await year.scalar("SELECT count(*) FROM claim") == 0
        assert await days.violations() == []
    with capsys.disabled():
        sys.stdout.write(f"\n{DAYS} days in {time.monotonic() - started:.0f} s: {json.dumps(rows)}\n")
    assert {day.month for day in lived} == (set(range(1, 13)) if DAYS > 366 else {1, 2, 3})
    assert date(2028, 2, 29) in lived


async def _keep(year: Year, daemon: Daemon) -> None:
    """One round of the daemon; nothing may fail in a year in which everything is paid."""
    await year.settle()
    done = await daemon.run_once()
    assert done.failed == []
    await year.nodes[0].days.look()


def _at(day: date, luck: random.Random) -> datetime:
    """Some moment of a business day."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=BUSINESS_ZONE)
    return (midnight + timedelta(seconds=luck.randrange(86_400))).astimezone(UTC)


async def _archived(archive: FileArchive, day: date) -> Any:
    return await asyncio.to_thread(archive.read, 0, day)
