"""Switches in bad hours: databases away in turn, operators who do not see each other, releases side by side."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import msgspec
import pytest
from click.testing import CliRunner

from cli.commands import switch as command
from published import table
from published.documents import SWITCHES, Document
from published.follower import Follower
from published.publisher import Publisher
from published.switching import Switching, not_reached
from runtime.clock import SystemClock
from sharding.topology import dump
from switches import file as switch_file
from switches.decisions import on
from switches.file import beside
from switches.switch import Closes, Switch
from tests.integration.published.test_published import FIRST, NOWHERE, Place, place, switch

__all__ = ["place"]


def now() -> datetime:
    return datetime.now(UTC)


def in_file(topology: Path) -> list[str]:
    """What a host's processes go by."""
    return sorted(one.name for one in on(switch_file.load(beside(topology)), now()))


async def newest(place: Place, database: str) -> tuple[int, list[str]]:
    """The version in a database, and what is closed by it."""
    connection = await asyncpg.connect(place.dsns[database])
    try:
        found = await table.newer(connection, {SWITCHES: 0})
    finally:
        await connection.close()
    if not found:
        return 0, []
    decisions = switch_file.parse(found[0].content, found[0].version).decisions
    return found[0].version, sorted(one.name for one in on(decisions, now()))


async def look(place: Place, follower: Follower, database: str) -> None:
    """What a process does once a second."""
    connection = await asyncpg.connect(place.dsns[database])
    try:
        await follower.look_in(connection)
    finally:
        await connection.close()


def host(folder: Path) -> Path:
    """Another host: its topology file."""
    folder.mkdir()
    dump(FIRST, folder / "topology.json")
    return folder / "topology.json"


async def close(publisher: Publisher, *closes: Closes) -> list[str]:
    """As `switch on`."""
    left = await publisher.change_switches(lambda old: [*old, *map(switch, closes)], now())
    return sorted(one.name for one in left)


async def open_(publisher: Publisher, name: str) -> list[str]:
    """As `switch off`."""
    left = await publisher.change_switches(lambda old: [one for one in old if one.name != name], now())
    return sorted(one.name for one in left)


@pytest.mark.parametrize("how", ["starts", "refresh"])
async def test_a_process_that_starts_beside_an_older_wallet_opens_nothing(place: Place, how: str) -> None:
    """Closed while the wallet was away; its database comes back with the version before, which the file outlives."""
    await place.publisher().change_switches(lambda _: [], now())
    assert await close(place.publisher(wallet=NOWHERE), Closes.CREATES) == ["creates"]
    if how == "starts":
        await look(place, Follower(place.path), "wallet")
    else:
        await place.publisher(**{"set-1": NOWHERE, "set-2": NOWHERE}).refresh()
    assert in_file(place.path) == ["creates"]


async def test_what_was_opened_stays_open_beside_an_older_database(place: Place) -> None:
    """Opening is a decision as well: a SET that did not hear of it brings back nothing that it closed."""
    await close(place.publisher(), Closes.CREATES, Closes.LISTS)
    assert await open_(place.publisher(**{"set-2": NOWHERE}), "creates") == ["lists"]
    assert await newest(place, "set-2") == (1_000, ["creates", "lists"])
    await look(place, Follower(place.path), "set-2")
    assert in_file(place.path) == ["lists"]
    assert await close(place.publisher(), Closes.VIEWS) == ["lists", "views"]
    assert await close(place.publisher(), Closes.CREATES) == ["creates", "lists", "views"]


async def test_a_change_that_saw_no_set_loses_nothing_that_they_have(place: Place, tmp_path: Path) -> None:
    """Payouts are closed while the wallet is away, creates on another host while the SETs are: no version means both.

    Servers of the SETs go by both at once, everybody does after the next change, as the operator is told to make it.
    """
    setnode, gateway = Follower(host(tmp_path / "setnode")), Follower(host(tmp_path / "gateway"))
    first = place.publisher(wallet=NOWHERE)
    assert await close(first, Closes.PAYOUTS) == ["payouts"]
    assert first.behind == ("wallet",)
    await look(place, setnode, "set-1")
    away = {"set-1": NOWHERE, "set-2": NOWHERE}
    second = Publisher(host(tmp_path / "other"), place.dsns | away, "another")
    assert await close(second, Closes.CREATES) == ["creates"]
    assert second.behind == ("set-1", "set-2")
    versions = [(await newest(place, one))[0] for one in place.dsns]
    assert versions[0] != versions[1] == versions[2]
    await look(place, setnode, "wallet")
    assert in_file(tmp_path / "setnode" / "topology.json") == ["creates", "payouts"]
    again = Publisher(tmp_path / "other" / "topology.json", place.dsns, "another")
    assert await close(again, Closes.CREATES) == ["creates", "payouts"]
    assert again.behind == ()
    for one, database in ((setnode, "set-1"), (gateway, "wallet")):
        await look(place, one, database)
    assert setnode.versions == gateway.versions
    assert in_file(tmp_path / "gateway" / "topology.json") == in_file(tmp_path / "setnode" / "topology.json")
    assert in_file(place.path) == ["payouts"]
    await place.publisher().refresh()
    assert in_file(place.path) == ["creates", "payouts"]


async def test_each_set_has_versions_of_its_own(place: Place, tmp_path: Path) -> None:
    """Two operators reach another SET each while the wallet is away: the next change keeps what both have closed."""
    one = place.publisher(wallet=NOWHERE, **{"set-2": NOWHERE})
    two = Publisher(host(tmp_path / "other"), place.dsns | {"wallet": NOWHERE, "set-1": NOWHERE}, "another")
    await close(one, Closes.CREATES)
    await close(two, Closes.VIEWS)
    assert (one.behind, two.behind) == (("wallet", "set-2"), ("wallet", "set-1"))
    assert await newest(place, "set-1") == (1, ["creates"])
    assert await newest(place, "set-2") == (2, ["views"])
    assert await close(place.publisher(), Closes.LISTS) == ["creates", "lists", "views"]
    assert [await newest(place, name) for name in place.dsns] == [(1_000, ["creates", "lists", "views"])] * 3


async def test_of_two_at_once_both_stand(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked before either has written, while the wallet is away: who comes second decides anew."""
    gate, original, looks = asyncio.Barrier(2), Switching._look, 0

    async def together(self: Switching) -> Any:
        nonlocal looks
        found, looks = await original(self), looks + 1
        if looks <= gate.parties:
            await gate.wait()
        return found

    monkeypatch.setattr(Switching, "_look", together)
    one = place.publisher(wallet=NOWHERE)
    two = Publisher(host(tmp_path / "other"), place.dsns | {"wallet": NOWHERE}, "another")
    left = await asyncio.gather(close(one, Closes.CREATES), close(two, Closes.LISTS))
    assert max(left, key=len) == ["creates", "lists"]
    # Whoever was overtaken at a SET has gone round once more, so the version may be a later one.
    version, closed = await newest(place, "set-1")
    assert closed == ["creates", "lists"]
    assert await newest(place, "set-2") == (version, closed)
    assert (one.behind, two.behind) == (("wallet",), ("wallet",))


async def test_a_set_that_another_has_changed_is_given_both(place: Place, tmp_path: Path) -> None:
    """The wallet has taken a change, and a SET has a later version of an operator who could not see it: once more."""
    seen: list[int] = []

    def creates(old: list[Switch]) -> list[Switch]:
        seen.append(len(old))
        return [*old, switch(Closes.CREATES)]

    other = Publisher(host(tmp_path / "other"), place.dsns | {"wallet": NOWHERE}, "another")
    one = place.publisher()
    original = one._databases.put

    async def put(database: str, document: Document) -> bool:
        taken = await original(database, document)
        if database == "wallet" and document.version == 1_000:
            # Two changes there bring it above what the wallet has just taken.
            text = switch_file.as_text([switch(Closes.VIEWS)], 1_001)
            for name in ("set-1", "set-2"):
                assert await other._databases.put(name, Document(SWITCHES, 1_001, text))
        return taken

    one._databases.put = put  # type: ignore[method-assign]
    left = await one.change_switches(creates, now())
    assert (seen, sorted(one.name for one in left)) == ([0], ["creates", "views"])
    assert [await newest(place, name) for name in place.dsns] == [(2_000, ["creates", "views"])] * 3


async def test_the_release_before_reads_what_we_publish_and_is_heard(place: Place) -> None:
    """Its texts have the fields of a switch alone. What it leaves out of a newer version was opened by it."""
    await close(place.publisher(), Closes.CREATES, Closes.LISTS)
    raw = json.loads(beside(place.path).read_text())
    assert raw.keys() == {"version", "switches"}
    assert raw["version"] == 1
    fields = {"closes", "where", "owner", "reason", "since", "until"}
    assert all(one.keys() <= fields for one in raw["switches"])
    theirs = [one for one in raw["switches"] if one["closes"] == "lists" and one["until"] > now().isoformat()]
    text = json.dumps({"version": 1, "switches": theirs}, indent=1) + "\n"
    assert await place.publisher()._databases.put("wallet", Document(SWITCHES, 1_001, text))
    follower = Follower(place.path)
    await look(place, follower, "wallet")
    assert in_file(place.path) == ["lists"]
    # Its processes write the file as it stands: what is published later is still taken.
    beside(place.path).write_text(text)
    assert await close(place.publisher(), Closes.VIEWS) == ["lists", "views"]
    assert in_file(place.path) == ["lists", "views"]
    assert [await newest(place, name) for name in place.dsns] == [(2_000, ["lists", "views"])] * 3


async def test_without_any_database_this_host_has_it(place: Place) -> None:
    """All are away: its processes close it, and the next change tells everybody."""
    nowhere = place.publisher(**dict.fromkeys(place.dsns, NOWHERE))
    assert await close(nowhere, Closes.CREATES) == ["creates"]
    assert nowhere.behind == ("wallet", "set-1", "set-2")
    assert in_file(place.path) == ["creates"]
    assert await close(place.publisher(), Closes.LISTS) == ["creates", "lists"]
    assert await newest(place, "set-2") == (1_000, ["creates", "lists"])


def test_an_operator_hears_what_was_not_reached() -> None:
    """And what to do about it."""
    assert not_reached(()) == ""
    assert "not reached: set-2. Its servers hear of this from the wallet" in not_reached(("set-2",))
    assert "give the command again" in not_reached(("wallet", "set-1"))
    assert "Gateways on other hosts" in not_reached(("wallet", "set-1"))


async def test_versions_that_are_kept_are_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of switches are a thousand apart: the newest stay, however far from each other."""
    monkeypatch.setattr(table, "KEPT", 3)
    for _ in range(5):
        await close(place.publisher(), Closes.CREATES)
    assert await place.rows("wallet", SWITCHES) == [3_000, 4_000, 5_000]


async def test_a_switch_that_is_set_again_is_the_later_one(place: Place) -> None:
    """Also by a host whose clock is behind: the reason and the end are those of the second command."""
    first = switch(Closes.CREATES)
    await place.publisher().change_switches(lambda _: [first], now())
    earlier = msgspec.structs.replace(first, since=first.since.replace(year=first.since.year - 1), reason="again")
    (left,) = await place.publisher().change_switches(lambda _: [earlier], now())
    assert left.reason == "again"
    assert left.since > first.since


async def test_off_given_again_reaches_what_it_had_not(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command says itself: what is open for the SETs is then opened by the wallet, too, and by its gateways."""
    gateway = Follower(host(tmp_path / "gateway"))
    await close(place.publisher(), Closes.CREATES)
    await look(place, gateway, "wallet")

    async def off(name: str, publisher: Publisher) -> tuple[int, str]:
        access = SimpleNamespace(clock=SystemClock(), publisher=lambda: publisher)
        monkeypatch.setattr(command, "find_current", lambda _: access)
        told = await asyncio.to_thread(CliRunner().invoke, command.command, ["off", name])
        return told.exit_code, told.output + str(told.exception or "")

    code, said = await off("creates", place.publisher(wallet=NOWHERE))
    assert (code, "not reached: wallet" in said) == (0, True)
    code, said = await off("creates", place.publisher())
    assert (code, said) == (0, "creates: was open; that is published once more\n")
    await look(place, gateway, "wallet")
    assert in_file(tmp_path / "gateway" / "topology.json") == []
    code, said = await off("lists", place.publisher())
    assert (code, "lists is not closed; closed: nothing" in said) == (1, True)
