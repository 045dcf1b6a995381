"""The profile under which all tests with examples run."""

from hypothesis import HealthCheck, settings


def test_no_example_has_a_deadline() -> None:
    """An example may take as long as a busy machine needs to make and run it: only its test has a deadline."""
    profile = settings()
    assert profile.deadline is None
    assert HealthCheck.too_slow in profile.suppress_health_check
