import itertools

import pytest

from errors import InvariantBroken
from loadtest.profiles import PROFILES, Phase, Profile, Size

NYE = PROFILES["nye"]


def people(profile, run_s=100, most=1_000):
    return [profile.users_at(float(second), run_s, most) for second in range(run_s)]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_everybody_comes_and_the_run_ends(profile):
    """Each profile reaches its peak, never exceeds it, is never empty, and is over after its time."""
    seen = people(profile)
    assert max(seen) == 1_000
    assert min(seen) >= 1
    assert profile.users_at(100.0, 100, 1_000) is None


def test_new_year_s_eve():
    """Few while it is calm, more and more until midnight, all of them then, and fewer and fewer in the tail."""
    seen = people(NYE)
    calm, countdown, midnight, tail = seen[:20], seen[20:40], seen[40:60], seen[60:]
    assert max(calm) <= 200
    assert all(a <= b for a, b in itertools.pairwise(calm + countdown))
    assert set(midnight) == {1_000}
    assert all(a >= b for a, b in itertools.pairwise(tail))
    assert tail[-1] < 200


def test_the_stroke_is_a_burst():
    """What people would do a second if nothing held them up rises at least sixfold at the stroke of midnight."""

    def asked(second):
        return NYE.users_at(second, 100, 1_000) / NYE.phase_at(second, 100).pace_s

    assert NYE.phase_at(39.9, 100).name == "countdown"
    assert NYE.phase_at(40.0, 100).name == "midnight"
    assert asked(40.0) == 4_000
    assert asked(40.0) > 5.9 * asked(39.9)
    assert asked(40.0) > 20 * asked(19.0)
    assert asked(99.0) < 0.05 * asked(40.0)


def test_phases_are_one_whole_run():
    """A profile whose phases leave time over is refused."""
    size = Size(users=1, seconds=1, groups=1, shares=1)
    with pytest.raises(InvariantBroken, match="all of the time"):
        Profile("half", "", (Phase("a", 0.5, 1.0, 1.0),), size, size)
