"""Looks at all parts once a second while somebody watches, never otherwise; keeps what it saw for ten minutes."""

import asyncio
import time
from collections import deque
from typing import Any

import msgspec

from errors import HongbaoError
from installation.access import Access
from installation.data_folder import DataFolder
from installation.parts import Kind
from ops.alarms import Alarm, alarms
from ops.events import Events
from ops.exposition import Exposed, read, total
from ops.figures import START, figures
from ops.limits import EVERY_S, KEPT, WATCHED_S
from ops.parts import Part, keep_up, parts_of
from ops.scrape import Look, Scraper
from runtime import logs
from runtime.sandbox_clock import SandboxClock
from sharding.slots import database_name
from sharding.topology import Topology
from switches.file import beside
from switches.file import load as load_switches
from switches.switch import Switch

_log = logs.get("ops")


class Seen(msgspec.Struct, frozen=True):
    """One look: what there was, and what it said."""

    at_ms: int
    topology: Topology
    switches: list[Switch]
    parts: list[Part]
    looks: dict[str, Look]
    exposed: dict[str, Exposed]


class Watching:
    """`run` owns the looks; `live` is what a page asks for, and what keeps them going."""

    def __init__(self, access: Access, folder: DataFolder) -> None:
        self._access = access
        self._folder = folder
        self._scraper = Scraper(access)
        self._events = Events()
        self._samples: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._seen: Seen | None = None
        self._number = 0
        self._asked = float("-inf")
        self._wake = asyncio.Event()
        self._first = asyncio.Event()
        self.looks = 0
        """Looks so far."""
        self.error = ""
        """Why the last look failed as a whole, such as an unreadable topology."""

    async def run(self) -> None:
        """Look until cancelled."""
        try:
            while True:
                if time.monotonic() - self._asked > WATCHED_S:
                    await self._rest()
                begun = time.monotonic()
                await self._look_or_say_why()
                self._first.set()
                await asyncio.sleep(max(0.05, EVERY_S - (time.monotonic() - begun)))
        finally:
            await self._scraper.rest()

    async def live(self, since: int) -> dict[str, Any]:
        """Return all that is known of now, and the samples after number `since`."""
        self._asked = time.monotonic()
        self._wake.set()
        await self._first.wait()
        seen = self._seen
        if seen is None:
            return {"error": self.error, "next": self._number}
        # A number of another life of this process: everything is new to who sends it.
        after = since if since <= self._number else 0
        return {
            "error": self.error,
            "now": seen.at_ms,
            "sandbox_now": self._access.clock.now_ms() if isinstance(self._access.clock, SandboxClock) else None,
            "next": self._number,
            "samples": [one for one in self._samples if one["n"] > after],
            "parts": [_part(one, seen) for one in seen.parts],
            "sets": _sets(seen),
            "switches": [{"name": one.name, **msgspec.to_builtins(one)} for one in seen.switches],
            "alarms": msgspec.to_builtins(_alarms(seen)),
            "events": msgspec.to_builtins(list(self._events.latest)),
            "topology_version": seen.topology.version,
        }

    async def _rest(self) -> None:
        self._seen = None
        self._first.clear()
        self._wake.clear()
        await self._scraper.rest()
        await self._wake.wait()

    async def _look_or_say_why(self) -> None:
        try:
            await self._look()
        except Exception as error:  # noqa: BLE001 - the next look may succeed, and a page that hears nothing is worse
            self.error = f"the parts could not be looked at: {type(error).__name__}; the log of ops says more"
            _log.exception("a look failed")

    async def _look(self) -> None:
        try:
            await keep_up(self._access, self._folder)
            topology, parts = self._access.topology(), await parts_of(self._access, self._folder)
            now = self._access.clock.now()
            switches = [one for one in load_switches(beside(self._access.topology_path)) if one.until > now]
            looks = await self._scraper.look(parts)
        except HongbaoError as error:
            self.error = error.detail
            _log.warning("the parts could not be looked at", error=error.detail)
            return
        self.looks += 1
        self.error = ""
        exposed: dict[str, Exposed] = {name: read(look.text) for name, look in looks.items() if look.text}
        seen = Seen(int(time.time() * 1e3), topology, switches, parts, looks, exposed)
        self._events.see(seen.at_ms, parts, looks, exposed)
        if self._seen is not None:
            self._number += 1
            seconds = max(0.001, (seen.at_ms - self._seen.at_ms) / 1e3)
            sample = figures(parts, self._seen.exposed, exposed, seconds)
            self._samples.append({"n": self._number, "t": seen.at_ms, **_rounded(sample)})
        self._seen = seen


def _part(one: Part, seen: Seen) -> dict[str, Any]:
    look, numbers = seen.looks[one.name], seen.exposed.get(one.name, {})
    return {
        "name": one.name,
        "kind": one.kind.value,
        "set": one.set,
        "address": one.address,
        "up": look.up,
        "detail": look.detail,
        "drained": one.drained,
        "pid": one.pid,
        "restarts": one.restarts,
        "started_ms": int(total(numbers, START) * 1e3) or None,
        "rss_bytes": int(total(numbers, "process_resident_memory_bytes")) or None,
        "cpu_s": total(numbers, "process_cpu_seconds_total") or None,
        "envelopes": int(total(numbers, "hongbao_actors_live")) if one.kind is Kind.SETNODE and numbers else None,
        "topology_version": int(total(numbers, "hongbao_topology_version")) or None,
    }


def _sets(seen: Seen) -> list[dict[str, Any]]:
    topology = seen.topology
    homes = [topology.set_for_database(xx).name for xx in range(topology.layout.databases)]
    ahead = {
        name: min(
            (
                int(total(seen.exposed[part.name], "hongbao_day_tables_ahead"))
                for part in seen.parts
                if part.set == name and "hongbao_day_tables_ahead" in seen.exposed.get(part.name, {})
            ),
            default=None,
        )
        for name in (one.name for one in topology.sets)
    }
    return [
        {
            "name": one.name,
            "paused": one.paused,
            "weight": one.weight,
            "servers": [server.name for server in one.servers],
            "drained": list(one.drained),
            "databases": [database_name(xx) for xx, home in enumerate(homes) if home == one.name],
            "days_ahead": ahead[one.name],
        }
        for one in topology.sets
    ]


def _alarms(seen: Seen) -> list[Alarm]:
    return alarms(seen.parts, seen.looks, seen.exposed, seen.topology, seen.switches)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return round(value, 2) if isinstance(value, float) else value
