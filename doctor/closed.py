"""What operators have closed, paused or drained, and may have forgotten."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from doctor.finding import Finding, Level
from doctor.place import Place
from errors import Refused
from sharding.topology import Topology
from switches.file import beside, load
from switches.switch import Switch


def closed(place: Place) -> Iterator[Finding]:
    """Name switches that are on, paused SETs and drained servers."""
    if place.access is None:
        return
    path = beside(place.access.topology_path)
    try:
        on = load(path)
    except Refused as refused:
        what = f"The switches cannot be read: {refused.detail}."
        yield Finding("closed", Level.WRONG, str(path), what, f"Remove {path}: that opens everything again.")
        on = []
    found = [*judge(on, place.access.clock.now())]
    if place.topology is not None:
        found += out_of_service(place.topology)
    yield from found or [Finding("closed", Level.OK, "closed", "nothing is closed, paused or drained")]


def out_of_service(topology: Topology) -> Iterator[Finding]:
    """Name paused SETs and drained servers, each with the command that puts it back."""
    for one in topology.sets:
        if one.paused:
            what = f"{one.name} is paused: its users hear 503."
            yield Finding("closed", Level.NOTE, one.name, what, f"./run dba resume {one.name}")
        for server in one.drained:
            what = f"{server} is drained: the others of {one.name} serve its envelopes."
            yield Finding("closed", Level.NOTE, server, what, f"./run dba undrain {server}")


def judge(switches: Iterable[Switch], now: datetime) -> Iterator[Finding]:
    """Name those that are on at `now`."""
    for one in switches:
        if one.until > now:
            what = f"{one.name} is closed until {one.until:%Y-%m-%d %H:%M} UTC, by {one.owner}: {one.reason}."
            do = f"./run switch off {one.name} opens it at once."
            yield Finding("closed", Level.NOTE, one.name, what, do)
