"""What an operator must see first, of parts that are at several places."""

from typing import Any

from installation.parts import Kind
from ops.alarms import Level, alarms
from ops.figures import figures
from ops.parts import Part
from ops.scrape import Look


class NothingClosed:
    """A topology without a SET."""

    sets = ()


def away(kind: Kind, *places: tuple[str, bool]) -> list[tuple[str, Level]]:
    """Which parts of these, by name and whether they answer, are told as away, and how urgently."""
    parts = [Part(name=name, kind=kind, address="") for name, _ in places]
    looks = {name: Look(up) for name, up in places}
    topology: Any = NothingClosed()
    return [(one.subject, one.level) for one in alarms(parts, looks, {}, topology, []) if one.code == "away"]


def test_one_of_several_that_is_away_is_for_the_day() -> None:
    """The others do its work: the wallet of another host, the other members of a Postgres."""
    assert away(Kind.WALLET, ("wallet@10.0.0.1", True), ("wallet@10.0.0.2", False)) == [
        ("wallet@10.0.0.2", Level.LOOK),
    ]
    members = [
        ("postgres-set-1", True),
        ("postgres-set-1@10.0.0.1:5433", True),
        ("postgres-set-1@10.0.0.2:5433", False),
    ]
    assert away(Kind.POSTGRES, *members) == [("postgres-set-1@10.0.0.2:5433", Level.LOOK)]


def test_the_last_one_that_is_away_is_a_page() -> None:
    """So is a part that is alone, and the memcached of a SET, which no other one stands in for."""
    assert away(Kind.WALLET, ("wallet@10.0.0.1", False), ("wallet@10.0.0.2", False)) == [
        ("wallet@10.0.0.1", Level.PAGE),
        ("wallet@10.0.0.2", Level.PAGE),
    ]
    assert away(Kind.EVENTS, ("events", False)) == [("events", Level.PAGE)]
    caches = [("memcached@10.0.0.1:11211", True), ("memcached@10.0.0.2:11211", False)]
    assert away(Kind.MEMCACHED, *caches) == [("memcached@10.0.0.2:11211", Level.PAGE)]


def test_what_several_wallets_read_is_shown_once() -> None:
    """They have one database."""
    parts = [Part(name=f"wallet@10.0.0.{number}", kind=Kind.WALLET, address="") for number in (1, 2)]
    now: Any = {part.name: {"hongbao_wallet_escrow_fen": {(): 700.0}} for part in parts}
    assert figures(parts, now, now, 1.0)["escrow_fen"] == 700.0
