"""Which switches there are, what each covers, and which are refused before anything is closed."""

from datetime import UTC, datetime, timedelta

import pytest

from errors import Refused
from sharding.ids import make_id
from sharding.topology import ServerSpec, SetSpec, Topology
from switches.switch import Closes, Switch, check, read_name

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
DAY = NOW.date()
TOPOLOGY = Topology(
    1,
    40,
    tuple(SetSpec(name, (ServerSpec(f"{name}-a", "http://127.0.0.1:1"),)) for name in ("set-1", "set-2")),
    "http://127.0.0.1:2",
    pins={"db_00": "set-1", "db_01": "set-1", "db_02": "set-2", "db_03": "set-2"},
)


def switch(name: str, **fields: object) -> Switch:
    closes, where = read_name(name)
    return Switch(
        **{
            "closes": closes, "where": where, "owner": "ann", "reason": "disk full", "since": NOW,
            "until": NOW + timedelta(hours=1), **fields,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        ("creates", range(40)),
        ("creates:set-1", range(20)),
        ("opens:set-2", range(20, 40)),
        ("opens:db_01", range(10, 20)),
        ("grabs:db_03", range(30, 40)),
    ],
)
def test_it_covers_what_it_names(name: str, slots: range) -> None:
    """Everything, one SET or one database."""
    one = switch(name)
    check(one, TOPOLOGY, NOW)
    covered = [slot for slot in range(40) if one.covers(TOPOLOGY, make_id(DAY, 1, slot))]
    assert covered == list(slots)
    assert one.databases(TOPOLOGY, make_id(DAY, 0, 0)) == sorted({slot // 10 for slot in slots})
    assert one.name == name


def test_a_part_is_not_the_whole() -> None:
    """A request that is for no envelope is covered by a switch for everywhere alone."""
    assert switch("creates").covers(TOPOLOGY, None)
    assert not switch("creates:set-1").covers(TOPOLOGY, None)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("refunds", "there is no switch 'refunds'"),
        ("audit", "there is no switch"),
        ("cancels", "there is no switch"),
        ("open:set-1", "did you mean opens?"),
        ("CREATES", "there is no switch"),
        ("", "there is no switch"),
    ],
)
def test_what_must_go_on_has_no_switch(name: str, sentence: str) -> None:
    """Refunds, cancels and the audit cannot be closed; a typing error is told what was meant."""
    with pytest.raises(Refused, match=sentence.replace("?", r"\?")) as refused:
        read_name(name)
    assert refused.value.code == "unknown_switch"


@pytest.mark.parametrize(
    ("one", "code", "sentence"),
    [
        (switch("opens"), "switch_invalid", "opens are closed for one SET or database"),
        (switch("lists:set-1"), "switch_invalid", "write lists alone"),
        (switch("creates:set-9"), "unknown_set", "no SET or database 'set-9'"),
        (switch("opens:db_04"), "unknown_set", "no SET or database 'db_04'"),
        (switch("payouts:db_01"), "unknown_set", "no SET 'db_01'"),
        (switch("creates", until=NOW), "switch_invalid", "which is past"),
        (switch("creates", until=NOW + timedelta(days=8)), "switch_invalid", "7 days at most"),
        (switch("creates", reason=" "), "switch_invalid", "the reason is"),
        (switch("creates", reason="a\nb"), "switch_invalid", "the reason is"),
        (switch("creates", owner="x" * 201), "switch_invalid", "the owner is"),
    ],
)
def test_what_makes_no_sense_is_refused(one: Switch, code: str, sentence: str) -> None:
    """By a sentence that says what is wrong."""
    with pytest.raises(Refused, match=sentence) as refused:
        check(one, TOPOLOGY, NOW)
    assert refused.value.code == code


def test_every_kind_can_be_closed() -> None:
    """None is left without a way to close it."""
    for closes in Closes:
        where = "set-1" if closes is Closes.OPENS else ""
        check(switch(f"{closes}:{where}" if where else closes), TOPOLOGY, NOW)
