"""The line of requests that wait to begin: order, what waits too long, and those who leave."""

import asyncio
import itertools

import pytest

from gateway.admission import line as line_room
from gateway.admission.line import Asked, Line, Refusal, read_timeout
from gateway.admission.priority import Class, Places
from gateway.admission.reason import Reason
from gateway.limits import PLACES, WINDOW_S


class One:
    """A request in the line; notes what became of it."""

    def __init__(self, name: int, kind: Class = Class.OPEN, asker: bytes = b"") -> None:
        self.name, self._kind, self._asker = name, kind, asker or b"user-%d" % name
        self.arrived_at = 0.0
        self.waits_s = 2.0
        self.in_line = self.left = self.begun = False
        self.refused: Reason | None = None

    def asked_for(self) -> Asked:
        return Asked(self._kind, self._asker)

    def timeout_s(self) -> float:
        return self.waits_s

    def begin(self) -> None:
        assert not self.begun
        self.begun = True

    def refuse(self, refusal: Refusal) -> None:
        assert refusal.kind is self._kind
        assert not self.begun
        self.refused = refusal.reason


class Hands:
    """A clock that tests move by hand; the loop's turns are real."""

    def __init__(self) -> None:
        self.now = 100.0
        self.loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self.now

    def call_soon(self, *what: object) -> None:
        self.loop.call_soon(*what)  # type: ignore[arg-type]


@pytest.fixture
async def hands() -> Hands:
    return Hands()


def join(line: Line, one: One) -> bool:
    """Stand in line as a connection does; return whether the request may begin."""
    refusal = line.join(one)
    if refusal is not None:
        one.refuse(refusal)
    return refusal is None


def line_of(per_turn: int, hands: Hands) -> Line:
    return Line(per_turn, Places(), hands)  # type: ignore[arg-type]


async def test_a_turn_takes_its_number_and_the_rest_follow_in_order(hands: Hands) -> None:
    """Of ten that come at once three begin in each turn of the loop, in the order in which they came."""
    line, people = line_of(3, hands), [One(name) for name in range(10)]
    for one in people:
        assert join(line, one)
    begun = [[one.name for one in people if one.begun]]
    while not all(one.begun for one in people):
        await asyncio.sleep(0)
        begun.append([one.name for one in people if one.begun])
    assert begun[0] == [0, 1, 2]
    assert all(len(after) - len(before) <= 3 for before, after in itertools.pairwise(begun))
    assert all(names == list(range(len(names))) for names in begun)


async def test_who_has_left_takes_no_place(hands: Hands) -> None:
    """A client that hung up is passed over: the next one begins in its place."""
    line, people = line_of(1, hands), [One(name) for name in range(4)]
    for one in people:
        join(line, one)
    people[1].left = True
    await asyncio.sleep(0)
    assert [one.begun for one in people] == [True, False, True, False]


async def test_an_idle_line_does_not_turn(hands: Hands) -> None:
    """A single request begins at once, in every turn anew; when nobody comes nothing is scheduled."""
    line = line_of(1, hands)
    for name in range(5):
        one = One(name)
        assert join(line, one)
        assert one.begun
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert line._left == 1


async def test_a_full_line_refuses_whoever_comes(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has room for a burst. A request in it begins; a cancel or a probe finds room in a full line, too."""
    monkeypatch.setattr(line_room, "BURST", 3)
    line = line_of(1, hands)
    people = [One(name) for name in range(6)]
    assert [join(line, one) for one in people] == [True, True, True, True, False, False]
    assert [one.refused for one in people[4:]] == [Reason.FULL] * 2
    assert join(line, health := One(9, Class.ALWAYS))
    for _ in range(5):
        await asyncio.sleep(0)
    assert all(one.begun for one in [*people[:4], health])


async def test_a_queue_that_stands_is_kept_short_and_a_burst_finds_room(hands: Hands) -> None:
    """While somebody is refused the line is as long as what begins in LINE_S; else as a burst."""
    line = line_of(10_000, hands)
    for level, most in ((2 * PLACES, int(5_000 * line_room.LINE_S / WINDOW_S)), (len(Class) * PLACES, line_room.BURST)):
        for name in range(5_000):
            join(line, One(name))
        await asyncio.sleep(0)
        hands.now += WINDOW_S
        line._threshold.level = level
        line.adjust()
        assert line._most == most


async def test_what_has_waited_too_long_is_refused_and_does_not_begin(hands: Hands) -> None:
    """The machine stood still: its people have left or will soon. What is always served is served late."""
    line = line_of(1, hands)
    first, late, health = One(0), One(1), One(2, Class.ALWAYS)
    for one in (first, late, health):
        join(line, one)
    hands.now += line_room.LATE_S + 0.001
    await asyncio.sleep(0)
    assert (late.refused, late.begun) == (Reason.WAITED, False)
    assert (health.refused, health.begun) == (None, True)


async def test_who_waits_no_longer_is_not_served(hands: Hands) -> None:
    """A client says how long it waits; its request does not begin after that."""
    line = line_of(1, hands)
    first, short, patient = One(0), One(1), One(2)
    short.waits_s = 0.03
    for one in (first, short, patient):
        join(line, one)
    hands.now += 0.04
    await asyncio.sleep(0)
    assert (short.refused, short.begun) == (Reason.TIMEOUT, False)
    assert patient.begun


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, 2.0), ("", 2.0), ("500", 0.5), (b"500", 0.5), ("1", 0.02), ("-5", 0.02), ("99999999999", 60.0), ("x", 2.0)],
)
def test_a_timeout_is_bounded(text: str | bytes | None, seconds: float) -> None:
    """A forged or absurd header does no harm: it is read within bounds, or not at all."""
    assert read_timeout(text, 2.0) == seconds


async def test_many_that_waited_too_long_are_refused_in_several_turns(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refusing them all at once would make the others wait."""
    monkeypatch.setattr(line_room, "LATE_A_TURN", 2)
    line, people = line_of(1, hands), [One(name) for name in range(7)]
    for one in people:
        join(line, one)
    hands.now += line_room.LATE_S + 0.001
    refused = []
    for _ in range(3):
        await asyncio.sleep(0)
        refused.append(sum(one.refused is Reason.WAITED for one in people))
    assert refused == [2, 4, 6]


async def test_a_wait_counts_from_the_turn_before(hands: Hands) -> None:
    """What was readable while a turn went on has waited for it in the socket, unseen."""
    line = line_of(1, hands)
    join(line, One(0))
    join(line, One(1))
    await asyncio.sleep(0)
    hands.now += 0.010  # the turn in which the second began took 10 ms …
    join(line, one := One(2))
    assert one.arrived_at == pytest.approx(100.0)  # … and in it this one became readable


async def test_while_too_many_come_the_last_in_order_of_priority_are_refused(hands: Hands) -> None:
    """Half of what comes can be done: views, grabs and creates are refused before any open is."""
    kinds = [Class.OPEN, Class.CREATE, Class.GRAB, Class.VIEW] * 50
    line = line_of(120, hands)

    async def window() -> list[One]:
        people = [One(number, kind) for number, kind in enumerate(kinds)]
        for one in people:
            join(line, one)
        await asyncio.sleep(0)  # 120 have begun, the others stand in line
        hands.now += WINDOW_S
        line._overflowed = True
        line._begun = 120
        line.adjust()
        for _ in range(5):
            await asyncio.sleep(0)
        return people

    for _ in range(8):
        last = await window()
    refused = {kind: sum(one.refused is not None for one in last if one._kind is kind) for kind in Class}
    assert refused[Class.OPEN] == 0
    assert refused[Class.VIEW] == 50
    assert refused[Class.GRAB] > 0
    assert refused[Class.CREATE] < refused[Class.GRAB]
    always = One(0, Class.ALWAYS)
    assert join(line, always)


async def test_one_connection_that_fails_does_not_stop_the_line(hands: Hands) -> None:
    """Whatever is wrong with one, those behind it begin in the next turn; the loop logs it."""
    line = line_of(1, hands)
    first, broken, last = One(0), One(1), One(2)
    failures: list[object] = []
    hands.loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def fail() -> None:
        raise RuntimeError("broken")

    broken.begin = fail  # type: ignore[method-assign]
    for one in (first, broken, last):
        join(line, one)
    for _ in range(4):
        await asyncio.sleep(0)
    hands.loop.set_exception_handler(None)
    assert last.begun
    assert [str(one) for one in failures] == ["broken"]
