"""DSNs with one host and with several."""

import pytest

from runtime.dsn import at_host, each, hosts, password_of, place, wanted, with_login, wrong_dsn

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


@pytest.mark.parametrize("special", ["#", "/", "?", "[", "/@", "?@", "@?", "#@", ":/", "\u2100"])
@pytest.mark.parametrize("before", ["geheim", "4321", "ge@heim", "ge:heim"])
def test_a_password_that_is_not_encoded_is_not_shown(before: str, special: str) -> None:
    """What such a character cuts off would be a host or a port to whoever shows where the DSN leads."""
    dsn = f"postgresql://hongbao_owner:{before}{special}wort@127.0.0.1:5999/db"
    told = wrong_dsn(dsn), place(dsn)
    assert "percent-encode" in told[0]
    assert not any(part in text for text in told for part in (before, "wort"))


@pytest.mark.parametrize(
    "dsn",
    [
        TWO,
        "postgresql://u@db/db",
        "postgresql:///db?host=/run",
        "postgres://u:p%23%2F%3F@[::1]:5999,[::2]/db",
        "postgresql://u:p@h@db/db",
    ],
)
def test_a_dsn_is_not_wrong(dsn: str) -> None:
    """With hosts of all kinds, and with every special character percent-encoded."""
    assert wrong_dsn(dsn) == ""


def test_each_host_has_a_dsn_of_its_own() -> None:
    """Login, database and parameters are those of the whole."""
    assert each(with_login(TWO, "u", "p@,:")) == [
        "postgresql://u:p%40%2C%3A@db-1:5433/hongbao?target_session_attrs=read-write",
        "postgresql://u:p%40%2C%3A@db-2/hongbao?target_session_attrs=read-write",
    ]


def test_one_host_of_several_may_be_a_standby() -> None:
    """It is asked as it is; login, database and what is said of TLS are those of the whole."""
    whole = with_login(f"{TWO}&sslmode=verify-full", "u", "p@,:")
    assert at_host(whole, "db-2:5432") == "postgresql://u:p%40%2C%3A@db-2:5432/hongbao?sslmode=verify-full"
    assert wanted(at_host(TWO, "db-1:5433")) == "any"


@pytest.mark.parametrize(
    ("asked", "found"), [("", "any"), ("read-write", "primary"), ("prefer-standby", "prefer-standby")]
)
def test_which_host_is_wanted(asked: str, found: str) -> None:
    """One that takes writes is a primary, whatever the session does."""
    assert wanted(f"postgresql://u@h/db{asked and f'?target_session_attrs={asked}'}") == found
