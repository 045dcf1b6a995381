"""What a process says at `/readyz` of the parts that it needs, and of those that it needs to begin."""

from runtime.http import Readiness


def test_a_part_that_is_needed_at_the_start_may_be_away_later() -> None:
    """A process waits for it once, and stays ready without it afterwards; another part is needed always."""
    up = {"wallet": False, "database": True}
    readiness = Readiness()
    readiness.require_at_start("wallet", lambda: up["wallet"])
    readiness.require("database", lambda: up["database"])
    assert readiness.missing() == ["wallet"]
    up["wallet"] = True
    assert readiness.missing() == []
    up["wallet"] = False
    assert readiness.missing() == []
    up["database"] = False
    assert readiness.missing() == ["database"]
