"""What is done again in a wallet, in which order, and what becomes of what it refuses."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import pytest

from errors import Refused, Unavailable
from recovery import calls
from recovery import repair as repair_module
from recovery.lost import Lost, LostEnvelope, LostFund
from recovery.repair import Repaired, repair
from wire.messages import PAID, FundStatus, PayKind, PayResult, PayStatus
from wire.wallet import Order, WalletClient


class ScriptedWallet:
    """Balances and funds in memory; `poison` fails every call that has it, `away_for` so many calls."""

    def __init__(self, **balances: int) -> None:
        self.balances = balances
        self.left: dict[int, int] = {}
        self.paid: set[str] = set()
        self.poison = ""
        self.away_for = 0

    async def fund(
        self, key: str, fingerprint: str, user: str, fen: int, envelope_id: int, header_hash: bytes, draft: bytes
    ) -> tuple[int, int, bytes]:
        if user == self.poison:
            raise Refused("malformed_request", "it is forgotten")
        if envelope_id in self.left:
            return FundStatus.REPLAYED, envelope_id, b""
        if self.balances.get(user, 0) < fen:
            return FundStatus.INSUFFICIENT, 0, b""
        self.balances[user] -= fen
        self.left[envelope_id] = fen
        return FundStatus.DONE, envelope_id, b""

    async def balance(self, user: str) -> int:
        if user == self.poison:
            raise Refused("malformed_request", "it is forgotten")
        return self.balances.get(user, 0)

    async def pay(self, orders: Sequence[Order]) -> list[PayResult]:
        if self.away_for:
            self.away_for -= 1
            raise Unavailable("wallet_unavailable", "it is away")
        if any(order.user == self.poison for order in orders):
            raise Refused("malformed_request", "it is forgotten")
        return [self._pay(order) for order in orders]

    def _pay(self, order: Order) -> PayResult:
        if order.order_no in self.paid:
            return PAID
        if self.left.get(order.envelope_id, 0) < order.amount_fen:
            return PayResult(PayStatus.REFUSED, "fund_exceeded")
        self.left[order.envelope_id] -= order.amount_fen
        self.balances[order.user] = self.balances.get(order.user, 0) + order.amount_fen
        self.paid.add(order.order_no)
        return PAID


def lost_create(number: int, sender: str, fen: int, *credits_of_it: Order) -> LostEnvelope:
    fund = LostFund("set-1", number, sender, fen, f"key-{number}", bytes(32))
    return LostEnvelope("set-1", number, number, fund, credits_of_it)


def lost_credit(number: int, user: str, fen: int) -> LostEnvelope:
    return LostEnvelope("set-1", number, number, None, [order(number, user, fen)])


def order(number: int, user: str, fen: int) -> Order:
    return Order(f"{number}.0", int(PayKind.CLAIM), user, fen, number)


async def made_good(some: Sequence[LostEnvelope], wallet: ScriptedWallet) -> Repaired:
    """Repair what of `some` the wallet does not have yet, as a look would find it."""

    async def find(lost: Lost) -> AsyncGenerator[LostEnvelope]:
        for one in some:
            fund = None if one.envelope_id in wallet.left else one.fund
            owed = [order for order in one.credits if order.order_no not in wallet.paid]
            if fund is not None or owed:
                found = replace(one, fund=fund, credits=owed)
                lost.add(found)
                yield found

    client = cast("WalletClient", wallet)
    _, done = await repair(find, {"set-1": client}, client)
    return done


def chain(length: int) -> list[LostEnvelope]:
    """Each wins the only share of the one before, and sends it on."""
    return [
        lost_create(number, f"user-{number}", 100, order(number, f"user-{number + 1}", 100)) for number in range(length)
    ]


async def test_winnings_that_were_spent_are_followed_to_their_end() -> None:
    """Of a chain of creates, each paid by the share before, all is made good; called again nothing moves."""
    wallet: Any = ScriptedWallet(**{"user-0": 100})
    done = await made_good(chain(7), wallet)
    assert (done.funded, done.paid, done.not_made_count) == (7, 7, 0)
    assert {user: fen for user, fen in wallet.balances.items() if fen} == {"user-7": 100}
    again = await made_good(chain(7), wallet)
    assert again.not_made_count == 0
    assert {user: fen for user, fen in wallet.balances.items() if fen} == {"user-7": 100}


async def test_what_no_balance_covers_is_named_and_nothing_of_it_is_paid() -> None:
    """Without the first deposit the whole chain is named, creates and credits, and no balance moves."""
    wallet = ScriptedWallet()
    done = await made_good(chain(3), wallet)
    assert (done.funded, done.paid, done.not_made_count) == (0, 0, 6)
    assert not wallet.balances
    assert [one.what for one in done.not_made] == ["create", "0.0", "create", "1.0", "create", "2.0"]


async def test_an_older_create_comes_first() -> None:
    """Where a balance covers only one of two creates, it is the older one's, as it was."""
    wallet = ScriptedWallet(sender=100)
    done = await made_good([lost_create(1, "sender", 100), lost_create(2, "sender", 100)], wallet)
    assert set(wallet.left) == {1}
    assert [one.envelope_id for one in done.not_made] == [2]


async def test_one_that_cannot_be_done_fails_alone() -> None:
    """An order, or a create, that fails its call is named; all beside it are done."""
    wallet = ScriptedWallet(rich=1_000)
    wallet.left = dict.fromkeys(range(10), 100)
    wallet.poison = "user-4"
    creates = [lost_create(20, "user-4", 100, order(20, "winner", 100)), lost_create(21, "rich", 100)]
    done = await made_good([*(lost_credit(number, f"user-{number}", 100) for number in range(10)), *creates], wallet)
    assert (done.paid, done.funded) == (9, 1)
    assert [(one.what, one.user) for one in done.not_made] == [
        ("4.0", "user-4"),
        ("create", "user-4"),
        ("20.0", "winner"),
    ]


async def test_rows_that_are_not_to_be_believed_move_nothing() -> None:
    """Of an envelope that a setnode would freeze neither create nor credit is done; both are named with the reason."""
    wallet = ScriptedWallet(sender=100)
    forged = replace(lost_create(1, "sender", 100, order(1, "thief", 100)), broken="its header was changed by hand")
    claims = replace(lost_credit(2, "thief", 100), broken="its log has a gap")
    wallet.left = {2: 100}
    done = await made_good([forged, claims], wallet)
    assert (done.moved, wallet.balances) == (0, {"sender": 100})
    assert [(one.what, one.why) for one in done.not_made] == [
        ("create", "its header was changed by hand"),
        ("1.0", "its create is not made good"),
        ("2.0", "its log has a gap"),
    ]


async def test_a_wallet_that_goes_away_is_waited_for_and_then_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that restarts is asked again; one that stays away ends the call, and the next call goes on."""
    monkeypatch.setattr(calls, "PAUSE_S", 0.0)
    wallet = ScriptedWallet()
    wallet.left, wallet.away_for = {1: 100}, calls.TRIES
    lost = [lost_credit(1, "user", 100)]
    with pytest.raises(Unavailable, match="away"):
        await made_good(lost, wallet)
    wallet.away_for = calls.TRIES - 1
    assert (await made_good(lost, wallet)).paid == 1


async def test_one_that_the_wallet_cannot_place_fails_alone() -> None:
    """An answer about one envelope, such as that its database has moved, is no word about the wallet."""

    class Outdated(ScriptedWallet):
        async def fund(self, *args: Any) -> tuple[int, int, bytes]:
            if args[4] == 1:
                raise Unavailable("topology_outdated", "it does not know this slot yet")
            return await super().fund(*args)

    done = await made_good([lost_create(1, "a", 10), lost_create(2, "b", 10)], Outdated(a=10, b=10))
    assert (done.funded, [one.why for one in done.not_made]) == (1, ["it does not know this slot yet"])


async def test_what_waits_of_one_sender_is_not_tried_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop without its deposit wins a little all the while: only what that may cover is tried."""
    monkeypatch.setattr(repair_module, "FUNDS_AT_ONCE", 10)
    monkeypatch.setattr(repair_module, "WAITING", 250)
    shop = [lost_create(number, "shop", 1_000) for number in range(200)]
    others = [lost_create(number, f"u{number}", 1, order(number, "shop", 1)) for number in range(1_000, 1_200)]
    wallet: Any = Counting(**{f"u{number}": 1 for number in range(1_000, 1_200)})
    done = await made_good([*shop, *others, *(lost_create(n, "late", 5) for n in range(2_000, 2_200))], wallet)
    assert done.funded == 200
    assert wallet.asked < 5 * 600


async def test_however_much_is_lost_only_so_much_of_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for one create that waits, a chain is made good all the same, by looking for it again."""
    monkeypatch.setattr(repair_module, "WAITING", 2)
    wallet: Any = ScriptedWallet(**{"user-0": 100})
    done = await made_good(chain(7), wallet)
    assert (done.funded, done.paid, done.not_made_count) == (7, 7, 0)


async def test_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no balance covers and did not fit into memory is told in the number of what was not made good."""
    monkeypatch.setattr(repair_module, "WAITING", 2)
    done = await made_good(chain(7), ScriptedWallet())
    assert (done.funded, done.not_made_count, len(done.not_made)) == (0, 14, 2)


async def test_what_is_covered_is_tried_though_others_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop whose deposit is lost keeps nobody else's creates from being made good."""
    monkeypatch.setattr(repair_module, "WAITING", 4)
    shop = [lost_create(number, "shop", 100) for number in range(1, 6)]
    small = [lost_create(number, "small", 50, order(number, "winner", 50)) for number in (11, 12, 13)]
    wallet = ScriptedWallet(small=150)
    done = await made_good([*shop, lost_create(10, "small", 1_000), *small], wallet)
    assert (done.funded, done.paid, done.not_made_count) == (3, 3, 6)
    assert wallet.balances == {"small": 0, "winner": 150}


async def test_behind_one_that_was_left_out_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender's later create, for which there is room, does not take what the earlier one waits for."""
    monkeypatch.setattr(repair_module, "WAITING", 3)
    monkeypatch.setattr(repair_module, "FUNDS_AT_ONCE", 1)
    other = lost_create(1, "other", 100, order(1, "x", 50))
    first = lost_create(2, "sender", 100, order(2, "y", 100))
    history = [other, first, lost_create(3, "sender", 50), lost_create(4, "z", 100, order(4, "sender", 100))]
    wallet = ScriptedWallet(z=100, other=0)
    done = await made_good(history, wallet)
    assert 2 in wallet.left
    assert 3 not in wallet.left
    assert done.funded == 2


async def test_more_creates_of_one_sender_than_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once they wait, all of them follow the credit that covers them, in order."""
    monkeypatch.setattr(repair_module, "FUNDS_AT_ONCE", 2)
    creates = [lost_create(number, "sender", 10) for number in range(1, 8)]
    wallet: Any = Counting(z=70)
    done = await made_good([*creates, lost_create(9, "z", 70, order(9, "sender", 70))], wallet)
    assert (done.funded, done.not_made_count) == (8, 0)
    assert wallet.left == dict.fromkeys(range(1, 8), 10) | {9: 0}


async def test_a_create_whose_key_paid_another_envelope_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its winners is paid: its money is in the other envelope."""

    class Reused(ScriptedWallet):
        async def fund(self, *_: Any) -> tuple[int, int, bytes]:
            return FundStatus.KEY_REUSED, 77, b""

    wallet = Reused(sender=100)
    done = await made_good([lost_create(1, "sender", 100, order(1, "winner", 100))], wallet)
    assert (done.moved, done.not_made_count) == (0, 2)
    assert "another create under its key" in done.not_made[0].why


class Counting(ScriptedWallet):
    """Counts what is asked of it."""

    asked = 0

    async def fund(self, *args: Any) -> tuple[int, int, bytes]:
        self.asked += 1
        return await super().fund(*args)


class Busy(ScriptedWallet):
    """Knows how many creates were in flight at once, at the most."""

    now = most = 0

    async def fund(self, *args: Any) -> tuple[int, int, bytes]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return await super().fund(*args)


async def test_a_chain_is_made_good_in_one_look() -> None:
    """However long a chain is, each of its creates is tried twice at the most, and the SETs are read once."""
    wallet: Any = Counting(**{"user-0": 100})
    looks = 0

    async def find(lost: Lost) -> AsyncGenerator[LostEnvelope]:
        nonlocal looks
        looks += 1
        for one in chain(500):
            yield one

    _, done = await repair(find, {"set-1": wallet}, wallet)
    assert (looks, done.funded) == (1, 500)
    assert wallet.asked < 2 * 500


async def test_creates_of_one_sender_are_in_flight_together_where_the_balance_covers_them() -> None:
    """One sender with very many creates is not made good at one round trip a create."""
    wallet: Any = Busy(shop=600)
    done = await made_good([lost_create(number, "shop", 100) for number in range(6)], wallet)
    assert (done.funded, wallet.most) == (6, 6)


@pytest.mark.parametrize("at_once", [1, 2, 3, 200])
async def test_a_later_create_leaves_an_earlier_one_its_money(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    """What every balance covered when it happened is made good, wherever a batch ends.

    Bob had 50 and won 50 of alice's; he sent 100, won 50 of it himself, and sent those. If the last create came before
    the second, nothing would ever cover that one.
    """
    monkeypatch.setattr(repair_module, "FUNDS_AT_ONCE", at_once)
    wallet: Any = ScriptedWallet(alice=50, bob=50)
    own = (Order("2.0", int(PayKind.CLAIM), "bob", 50, 2), Order("2.1", int(PayKind.CLAIM), "carol", 50, 2))
    history = [
        lost_create(1, "alice", 50, order(1, "bob", 50)),
        lost_create(2, "bob", 100, *own),
        lost_create(3, "bob", 50, order(3, "dave", 50)),
    ]
    done = await made_good(history, wallet)
    assert (done.funded, done.paid, done.not_made_count) == (3, 4, 0)
    assert {user: fen for user, fen in wallet.balances.items() if fen} == {"carol": 50, "dave": 50}


async def test_without_a_deposit_what_is_there_covers_what_it_can() -> None:
    """A create that nothing covers does not keep the sender's smaller ones waiting for ever."""
    wallet = ScriptedWallet(sender=150)
    small = [lost_create(number, "sender", 50, order(number, "winner", 50)) for number in (2, 3, 4)]
    done = await made_good([lost_create(1, "sender", 1_000), *small], wallet)
    assert (done.funded, done.paid) == (3, 3)
    assert [one.envelope_id for one in done.not_made] == [1]


class Slow(ScriptedWallet):
    """Takes calls in whatever order, however they were sent."""

    def __init__(self, chance: random.Random, **balances: int) -> None:
        super().__init__(**balances)
        self.chance = chance

    async def fund(self, *args: Any) -> tuple[int, int, bytes]:
        for _ in range(self.chance.randint(0, 5)):
            await asyncio.sleep(0)
        return await super().fund(*args)


class History(NamedTuple):
    """Creates with their claims, what everybody had before, and what they have after all of them."""

    creates: list[LostEnvelope]
    before: dict[str, int]
    after: dict[str, int]


def any_history(chance: random.Random) -> History:
    """People send what they have and win what others sent."""
    people = [f"user-{number}" for number in range(5)]
    before = {user: chance.choice([0, 50, 200]) for user in people}
    balances, history = dict(before), []
    for number in range(60):
        senders = [user for user in people if balances[user] > 0]
        if not senders:
            break
        sender = chance.choice(senders)
        fen = chance.randint(1, balances[sender])
        share, taken = fen // 2, chance.sample(people, k=2)
        claims = [
            Order(f"{number}.{seq}", int(PayKind.CLAIM), user, part, number)
            for seq, (user, part) in enumerate(zip(taken, (share, fen - share), strict=True))
            if part
        ]
        balances[sender] -= fen
        for claim in claims:
            balances[claim.user] += claim.amount_fen
        history.append(lost_create(number, sender, fen, *claims))
    return History(history, before, balances)


def any_bounds(chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches and room of any small size."""
    monkeypatch.setattr(repair_module, "FUNDS_AT_ONCE", chance.randint(1, 9))
    monkeypatch.setattr(repair_module, "ORDERS_AT_ONCE", chance.randint(1, 9))
    monkeypatch.setattr(repair_module, "ORDERS_BEHIND_CREATES", chance.choice([1, 5, 1_000]))
    monkeypatch.setattr(repair_module, "WAITING", chance.choice([1, 4, 10, 1_000]))


@pytest.mark.parametrize("seed", range(100))
async def test_any_history_is_made_good(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever the batches and the room, all of it is repeated."""
    chance = random.Random(seed)
    any_bounds(chance, monkeypatch)
    history = any_history(chance)
    wallet = Slow(chance, **history.before)
    done = await made_good(history.creates, wallet)
    assert done.not_made_count == 0, done.not_made
    assert wallet.balances == history.after


@pytest.mark.parametrize("seed", range(100))
async def test_of_any_history_without_a_deposit_what_is_covered_is_made_good(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """No create is left that its sender's balance covers, no credit whose create stands; the rest is counted."""
    chance = random.Random(seed)
    any_bounds(chance, monkeypatch)
    history = any_history(chance)
    lacking = chance.choice(list(history.before))
    wallet = Slow(chance, **history.before | {lacking: 0})
    done = await made_good(history.creates, wallet)
    left = [one for one in history.creates if one.envelope_id not in wallet.left]
    assert [one for one in left if one.fund and wallet.balances.get(one.fund.sender, 0) >= one.fund.total_fen] == []
    made = [one for one in history.creates if one.envelope_id in wallet.left]
    assert [order for one in made for order in one.credits if order.order_no not in wallet.paid] == []
    assert done.not_made_count == sum(1 + len(one.credits) for one in left)
