"""The threshold: who is admitted while more come than can be done, and how it follows what can be done."""

from gateway.admission.priority import Class
from gateway.admission.threshold import Threshold
from gateway.limits import CALM_WINDOWS, PLACES


def come(threshold: Threshold, people: int, kind: Class = Class.OPEN) -> int:
    """Let people of one class come, spread over the places; return how many were admitted."""
    return sum(threshold.admits(kind, number % PLACES) for number in range(people))


def play(threshold: Threshold, comes: int, can: int, windows: int) -> list[int]:
    """Let so many come in each window, of whom so many can be served; return how many were admitted in each."""
    seen = []
    for _ in range(windows):
        admitted = come(threshold, comes) if threshold.limited else comes
        seen.append(admitted)
        threshold.adjust(min(admitted, can), 1.0, behind=admitted > can)
    return seen


def test_a_calm_gateway_counts_nobody() -> None:
    """Without a queue nothing is limited, however many come."""
    threshold = Threshold()
    play(threshold, 1_000, 2_000, 10)
    assert not threshold.limited


def test_three_times_too_many() -> None:
    """Within ten windows as many are admitted as can be served, and it stays there."""
    threshold = Threshold()
    admitted = play(threshold, 3_000, 1_000, 200)
    settled = admitted[10:]
    assert sum(min(one, 1_000) for one in settled) > 0.9 * 1_000 * len(settled)
    assert max(settled) < 1_400


def test_a_jump_is_followed_at_once() -> None:
    """The window after the first overloaded one knows who comes, the next admits what could be done."""
    threshold = Threshold()
    admitted = play(threshold, 3_000, 1_000, 4)
    assert admitted[0] == admitted[1] == 3_000
    assert admitted[2] < 1_300


def test_after_a_stall_it_recovers_within_two_seconds() -> None:
    """A server that has done nothing for a while is tried again faster and faster."""
    threshold = Threshold()
    play(threshold, 1_000, 0, 30)
    admitted = play(threshold, 1_000, 1_000, 40)
    assert admitted[-1] == 1_000


def test_when_fewer_come_everybody_is_admitted_and_then_nobody_counted() -> None:
    """As soon as those who come can be served; the counting ends two seconds later."""
    threshold = Threshold()
    play(threshold, 3_000, 1_000, 50)
    admitted = play(threshold, 500, 1_000, CALM_WINDOWS + 3)
    assert admitted[2:] == [500] * (CALM_WINDOWS + 1)
    assert not threshold.limited


def test_the_same_users_are_admitted_while_it_stands() -> None:
    """Nobody gains by trying again: who was refused is refused, who was served is served."""
    threshold = Threshold()
    play(threshold, 3_000, 1_000, 20)
    first = [threshold.admits(Class.OPEN, place) for place in range(PLACES)]
    assert [threshold.admits(Class.OPEN, place) for place in range(PLACES)] == first
    assert first == sorted(first, reverse=True)
    assert 0 < sum(first) < PLACES


def test_a_class_is_refused_whole_before_the_one_above_loses_anybody() -> None:
    """Views go first, then grabs."""
    threshold = Threshold()
    for _ in range(8):
        for kind in (Class.OPEN, Class.GRAB, Class.VIEW):
            come(threshold, 640, kind)
        threshold.adjust(700, 1.0, behind=True)
    assert come(threshold, 640, Class.VIEW) == 0
    assert come(threshold, 640, Class.GRAB) < 640
    assert come(threshold, 640, Class.ALWAYS) == 640


def test_a_long_window_counts_as_several() -> None:
    """A loop that was late has seen more people come, and has begun more."""
    short, long = Threshold(), Threshold()
    for threshold, windows in ((short, 1.0), (long, 3.0)):
        threshold.adjust(1_000, windows, behind=True)
        come(threshold, int(2_000 * windows))
        threshold.adjust(1_000, windows, behind=False)
    assert abs(short.level - long.level) <= 1


def test_after_a_pause_a_crowd_that_can_be_served_is_not_refused() -> None:
    """When nobody has come for a while after an overload, the number admitted then does not bound the next crowd."""
    threshold = Threshold()
    play(threshold, 3_000, 1_000, 50)
    play(threshold, 0, 1_000, 5)
    assert play(threshold, 900, 1_000, 20) == [900] * 20
