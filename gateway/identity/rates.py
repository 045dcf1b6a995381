"""How often a user, and an address, may ask: settings, and what each request takes out of its buckets.

Counted by each gateway for itself: with N gateways a user may ask N times as often at worst. What is exact, because
money depends on it, is counted in the wallet (`wallet.day_places`). An address is that of the client behind our own
proxies; an IPv6 client has a whole network. Nothing here knows a password: wrong ones are counted for each user and
envelope in the SET, so that nobody can use up another's tries.
"""

import re
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from errors import Refused, Unavailable
from gateway.identity.auth_failures import CLIENT_ADDRESS, network_of
from gateway.identity.buckets import NS, Buckets
from gateway.limits import LONGEST_RATE_S, MOST_RATE, RATE_ADDRESSES, RATE_OPENS, RATE_USERS
from runtime import metrics

_limited = metrics.counter("hongbao_limited_total", "Requests refused: a user or an address asks too often", ("limit",))
UserOf = Callable[[str | None], str]
"""Finds the user of an `Authorization` header; see `Tokens.user_of`."""


class Kind(StrEnum):
    """Requests that have a rate of their own."""

    CREATE = "create"
    OPEN = "open"
    GRAB = "grab"
    VIEW = "view"
    CANCEL = "cancel"
    WALLET = "wallet"
    """Balance, statement, lists."""


class Rate(NamedTuple):
    """So many at once, and as many again in each `seconds`."""

    most: int
    seconds: float

    def __str__(self) -> str:
        """Write it as the setting does."""
        return f"{self.most}/{self.seconds:g}"


_RATE: Final = re.compile(r"([a-z]+)=([0-9]{1,9})/([0-9]{1,9}(?:\.[0-9]{1,3})?)\Z", re.ASCII)


def read_rates(setting: str, text: str) -> dict[Kind, Rate]:
    """Read `open=10/1 create=5/60`: ten opens a second, five creates a minute; raises Refused `settings_invalid`."""
    found: dict[Kind, Rate] = {}
    for word in text.replace(",", " ").split():
        matched = _RATE.match(word)
        if matched is None or matched[1] not in list(Kind):
            kinds = ", ".join(Kind)
            raise _invalid(f"{setting}: {word!r} is no rate such as open=10/1 (ten a second); there are {kinds}")
        kind, rate = Kind(matched[1]), Rate(int(matched[2]), float(matched[3]))
        if kind in found:
            raise _invalid(f"{setting}: {kind} is there twice")
        if rate.most < 1:
            raise _invalid(f"{setting}: {word} would refuse everybody; close it with ./run switch instead")
        if rate.most > MOST_RATE or not 0 < rate.seconds <= LONGEST_RATE_S:
            raise _invalid(f"{setting}: {word}: at most {MOST_RATE} in more than 0 and at most {LONGEST_RATE_S:.0f} s")
        found[kind] = rate
    return found


class Rates:
    """`guard` adds the limits of one kind of request to the search for its user; without limits it adds nothing."""

    def __init__(
        self,
        users: Mapping[Kind, Rate],
        addresses: Mapping[Kind, Rate],
        open_every_s: float = 0.0,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`open_every_s`: a user may try one envelope once in this time; 0: as often as they like.

        Raises Refused `settings_invalid` for limits of which one can never be reached.
        """
        _check(users, addresses)
        self._users = {kind: (rate, Buckets(*rate, RATE_USERS, now_ns)) for kind, rate in users.items()}
        self._addresses = {kind: (rate, Buckets(*rate, RATE_ADDRESSES, now_ns)) for kind, rate in addresses.items()}
        self._opens = Buckets(1, open_every_s or 1.0, RATE_OPENS, now_ns)
        self._open_every_s = open_every_s
        self.check_open = self._check_open if open_every_s else None
        """To be called with the user and the envelope's ID before an open; None: opens are not limited so.

        It raises Unavailable `too_soon` if they have tried this envelope less than `open_every_s` ago."""

    def guard(self, kind: Kind, user_of: UserOf) -> UserOf:
        """Return `user_of` with the limits of `kind`: the address before a token is looked at, the user after it.

        It raises Unavailable `too_many_requests` as well then.
        """
        of_user, of_address = self._users.get(kind), self._addresses.get(kind)
        if of_user is None and of_address is None:
            return user_of

        def limited(authorization: str | None) -> str:
            if of_address is not None:
                _take(*of_address, network_of(CLIENT_ADDRESS.get()), f"{kind} requests from your address", "address")
            user = user_of(authorization)
            if of_user is not None:
                _take(*of_user, user, f"{kind} requests of yours", "user")
            return user

        return limited

    def _check_open(self, user: str, envelope_id: int) -> None:
        if (wait_ns := self._opens.take(f"{envelope_id} {user}")) > 0:
            _limited.labels("open_every_s").inc()
            raise Unavailable(
                "too_soon",
                f"you have tried this envelope less than {self._open_every_s:g} s ago; nothing was done",
                retry_after_s=wait_ns / NS,
            )


def _take(rate: Rate, buckets: Buckets, key: str, whose: str, limit: str) -> None:
    if (wait_ns := buckets.take(key)) > 0:
        _limited.labels(limit).inc()
        raise Unavailable(
            "too_many_requests",
            f"more than {rate.most} {whose} in {rate.seconds:g} s; nothing was done",
            retry_after_s=wait_ns / NS,
        )


def _check(users: Mapping[Kind, Rate], addresses: Mapping[Kind, Rate]) -> None:
    for kind, rate in users.items():
        address = addresses.get(kind)
        if address is None:
            continue
        if address.most < rate.most or address.most / address.seconds < rate.most / rate.seconds:
            raise _invalid(
                f"one address may {kind} {address} and one user {rate}: a user would be refused for the address "
                "before; give addresses as much at least"
            )


def _invalid(sentence: str) -> Refused:
    return Refused("settings_invalid", sentence)
