"""How large a stack is and where it listens, with the limits of one machine."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from errors import Refused
from local.supervisor_log import Notify
from schema.day_tables import AHEAD_DAYS
from sharding.slots import MAX_SLOTS, TABLES_PER_DATABASE

MAX_SETS, MAX_SERVERS, MAX_GATEWAYS = 16, 8, 16
"""Each SET is a Postgres with 128 MB of buffers, each server a Python process: more need several machines."""
PORTS_END = 65_536


def print_on_stderr(line: str) -> None:
    """Print one line of progress; standard output is for results."""
    sys.stderr.write(f"hongbao: {line}\n")
    sys.stderr.flush()


def ports_needed(gateways: int) -> int:
    """Return how many ports so many gateways take: several share one beside their own."""
    return gateways + (gateways > 1)


@dataclass(frozen=True)
class StackConfig:
    """What to start. Raises Refused `config_invalid` for more than one machine carries.

    `servers` is per SET. Clients find the gateways at `port`; several share it, and each
    has one of its own behind it; port 0: any free ports. `slots` is used by the first start only: it is part of every
    envelope ID, so it never changes. `ahead_days`: how many days after today
    have their tables made. `ops`: whether the operator's view is served, `events`: whether events are delivered, too.
    `new_clusters`: servers (a SET, or
    "wallet") whose cluster may be another than before, or missing; an empty one is made then. `modules`: what
    `python -m` runs for each kind of process; `env` is added to the environment of all. `play_users`:
    as whom everybody may sign in (`local.play`). `sandbox`: whether the clock can be moved (`installation.sandbox`).
    `tls`: whether setnodes and the wallet are called by TLS, with certificates made at the start. `paused`: whether
    every SET is paused before any process starts, as after a restore.
    """

    data: Path | None = None
    sets: int = 2
    servers: int = 2
    gateways: int = 1
    host: str = "127.0.0.1"
    port: int = 8080
    slots: int = 100
    ahead_days: int = AHEAD_DAYS
    ops: bool = False
    events: bool = False
    new_clusters: frozenset[str] = frozenset()
    modules: Mapping[str, str] = field(
        default_factory=lambda: {kind: kind for kind in ("wallet", "setnode", "gateway", "ops", "events")}
    )
    env: Mapping[str, str] = field(default_factory=dict)
    play_users: tuple[str, ...] = ()
    sandbox: bool = False
    tls: bool = False
    paused: bool = False
    notify: Notify = print_on_stderr

    def __post_init__(self) -> None:
        """Check the limits."""
        for name, most in (("sets", MAX_SETS), ("servers", MAX_SERVERS), ("gateways", MAX_GATEWAYS)):
            if not 1 <= getattr(self, name) <= most:
                raise Refused("config_invalid", f"--{name} must be 1 to {most}, is {getattr(self, name)}")
        if not TABLES_PER_DATABASE <= self.slots <= MAX_SLOTS or self.slots % TABLES_PER_DATABASE:
            raise Refused(
                "config_invalid",
                f"--slots must be a multiple of {TABLES_PER_DATABASE} up to {MAX_SLOTS:,}, is {self.slots}",
            )
        unknown = self.new_clusters - {"wallet", *self.set_names()}
        if unknown:
            raise Refused(
                "config_invalid", f"--new-cluster takes a SET of this stack, or wallet; there is no {min(unknown)}"
            )
        highest = PORTS_END - ports_needed(self.gateways)
        if not 0 <= self.port <= highest:
            raise Refused("config_invalid", f"--port must be 0 to {highest}, is {self.port}")

    def set_names(self) -> list[str]:
        """Return the names: set-1, set-2 and so on."""
        return [f"set-{number}" for number in range(1, self.sets + 1)]

    def server_names(self, set_name: str) -> list[str]:
        """Return the names: set-1-a, set-1-b and so on."""
        return [f"{set_name}-{chr(ord('a') + number)}" for number in range(self.servers)]
