import asyncio

from gateway.pacing import Pacer


async def _pass(pacer: Pacer, name: int, passed: list[int]) -> None:
    turn = pacer.admit()
    if turn is not None:
        await turn
    passed.append(name)


async def test_a_turn_takes_its_number_and_the_rest_follow_in_order() -> None:
    """Of ten that come at once three begin in each turn of the loop, in the order in which they came."""
    pacer, passed = Pacer(3, asyncio.get_running_loop()), list[int]()
    tasks = [asyncio.ensure_future(_pass(pacer, name, passed)) for name in range(10)]
    steps = []
    while len(passed) < len(tasks):
        before = len(passed)
        await asyncio.sleep(0)
        steps.append(len(passed) - before)
    assert passed == list(range(10))
    assert max(steps) <= 3


async def test_whoever_was_cancelled_takes_no_place() -> None:
    """A place that was given up goes to the next; nobody is forgotten behind it."""
    pacer, passed = Pacer(1, asyncio.get_running_loop()), list[int]()
    tasks = [asyncio.ensure_future(_pass(pacer, name, passed)) for name in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    async with asyncio.timeout(1):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert passed == [0, 2, 3]


async def test_an_idle_turnstile_does_not_turn() -> None:
    """A single request passes at once, in every turn anew; when nobody comes nothing is scheduled."""
    loop = asyncio.get_running_loop()
    pacer = Pacer(1, loop)
    for _ in range(5):
        assert pacer.admit() is None
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert pacer._left == 1
