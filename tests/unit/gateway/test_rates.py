"""The settings of rates, and which of them are refused."""

import pytest

from errors import Refused, Unavailable
from gateway.identity.auth_failures import CLIENT_ADDRESS
from gateway.identity.rates import Kind, Rate, Rates, read_rates

NS = 1_000_000_000


def test_rates_are_read() -> None:
    """With blanks or commas between; an empty setting limits nothing."""
    assert read_rates("X", "open=10/1 create=5/60,view=20/0.5") == {
        Kind.OPEN: Rate(10, 1), Kind.CREATE: Rate(5, 60), Kind.VIEW: Rate(20, 0.5),
    }  # fmt: skip
    assert read_rates("X", " ") == {}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("open", "'open' is no rate such as open=10/1"),
        ("opens=1/1", "no rate such as"),
        ("open=1", "no rate such as"),
        ("open=-1/1", "no rate such as"),
        ("open=1/1s", "no rate such as"),
        ("open=\u0661/1", "no rate such as"),
        ("open=1/1 open=2/1", "open is there twice"),
        ("open=0/1", "would refuse everybody; close it with ./run switch"),
        ("open=1/0", "more than 0"),
        ("open=1/86401", "at most 86400 s"),
        ("open=1000001/1", "at most 1000000"),
    ],
)
def test_what_is_no_rate_is_refused(text: str, sentence: str) -> None:
    """With the name of the setting."""
    with pytest.raises(Refused, match=f"HONGBAO_USER_RATES: .*{sentence}") as refused:
        read_rates("HONGBAO_USER_RATES", text)
    assert refused.value.code == "settings_invalid"


@pytest.mark.parametrize("address", [Rate(9, 1), Rate(10, 2), Rate(100, 11)])
def test_limits_that_contradict_each_other_are_refused(address: Rate) -> None:
    """An address that may do less than one user: the user's limit could never be reached."""
    with pytest.raises(Refused, match=r"one address may open .* and one user 10/1"):
        Rates({Kind.OPEN: Rate(10, 1)}, {Kind.OPEN: address})
    Rates({Kind.OPEN: Rate(10, 1)}, {Kind.OPEN: Rate(10, 1), Kind.VIEW: Rate(1, 1)})


def test_without_limits_nothing_is_added() -> None:
    """The search for the user is called as it is."""
    rates = Rates({Kind.OPEN: Rate(1, 1)}, {})
    assert rates.guard(Kind.VIEW, str) is str
    assert rates.guard(Kind.OPEN, str) is not str
    assert rates.check_open is None


def test_an_address_is_limited_before_a_token_is_looked_at() -> None:
    """Verifying costs more than refusing; a user is known only after it."""
    looked_at: list[str | None] = []

    def user_of(authorization: str | None) -> str:
        looked_at.append(authorization)
        return "bob"

    CLIENT_ADDRESS.set("192.0.2.1")
    guard = Rates({}, {Kind.OPEN: Rate(2, 1)}, now_ns=lambda: 0).guard(Kind.OPEN, user_of)
    assert [guard("t"), guard("t")] == ["bob", "bob"]
    with pytest.raises(Unavailable, match="too_many_requests: more than 2 open requests from your address") as refused:
        guard("t")
    assert refused.value.retry_after_s == 0.5
    assert len(looked_at) == 2
    CLIENT_ADDRESS.set("192.0.2.2")
    assert guard("t") == "bob"
