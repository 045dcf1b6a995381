"""DSNs with one host and with several."""

import pytest

from runtime.dsn import hosts, password_of, place, with_login

TWO = "postgresql://hongbao_owner@db-1:5433,db-2/hongbao?target_session_attrs=read-write"


@pytest.mark.parametrize(
    ("dsn", "found"),
    [
        ("postgresql://u:p@127.0.0.1:5999/db", [("127.0.0.1", 5999)]),
        ("postgresql://u@db/db", [("db", 5432)]),
        ("postgresql://u@[::1]:5999/db", [("::1", 5999)]),
        ("postgresql://u@[::1]/db", [("::1", 5432)]),
        (TWO, [("db-1", 5433), ("db-2", 5432)]),
    ],
)
def test_hosts(dsn: str, found: list[tuple[str, int]]) -> None:
    """In order, each with its port."""
    assert hosts(dsn) == found


def test_a_login_is_replaced_and_the_rest_stays() -> None:
    """A password with every special character comes back as it was."""
    awkward = "a/b@c:d?e#f,g%h"
    changed = with_login(TWO, "hongbao_audit", awkward)
    assert hosts(changed) == hosts(TWO)
    assert changed.endswith("/hongbao?target_session_attrs=read-write")
    assert password_of(changed) == awkward
    assert password_of(TWO) is None
    assert awkward not in place(changed)
