"""What a link makes of what it hears, and of silence."""

from wire.heard import Heard
from wire.limits import LOAD_KEPT_S, SILENT_S


def heard() -> tuple[Heard, list[float]]:
    now = [100.0]
    return Heard(lambda: now[0]), now


def test_silence_counts_only_after_a_beat() -> None:
    """A server of an older version sends none; each connection begins anew."""
    one, now = heard()
    one.connected()
    now[0] += 10 * SILENT_S
    assert not one.silent
    one.frame()
    one.told([0])
    now[0] += SILENT_S
    assert not one.silent
    now[0] += 0.01
    assert one.silent
    one.connected()
    assert not one.silent


def test_any_frame_is_a_sign_of_life() -> None:
    """And one's own standstill begins the count anew."""
    one, now = heard()
    one.told([0])
    for again in (one.frame, one.begin_anew):
        now[0] += SILENT_S + 1
        assert one.silent
        again()
        assert not one.silent


def test_what_was_told_counts_for_a_while() -> None:
    """By kind; of a kind that was not named nothing is known."""
    one, now = heard()
    assert one.wait_s(0) == 0.0
    one.told([20, 300])
    assert [one.wait_s(kind) for kind in (0, 1, 2)] == [0.02, 0.3, 0.0]
    now[0] += LOAD_KEPT_S + 0.01
    assert one.wait_s(1) == 0.0
