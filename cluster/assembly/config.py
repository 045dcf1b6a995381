"""How large a stack is and where it listens, with the limits of one machine."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster.supervision.supervisor import Say
from envelope.errors import Refused

MAX_SETS, MAX_SERVERS, MAX_GATEWAYS = 16, 8, 16
"""Each SET is a Postgres of 128 MB buffers, each server a Python process: more belongs on more machines."""


def say_on_stderr(line: str) -> None:
    """Print one line of progress; standard output is for results."""
    sys.stderr.write(f"hongbao: {line}\n")
    sys.stderr.flush()


@dataclass(frozen=True)
class StackConfig:
    """`gateways` listen on `port`, port + 1, …: each has its own /readyz and /metrics. Port 0: free ones.

    `slots` counts for a first start alone: they are part of every ID and so for ever; a hundred make it quick.
    `rotate`: ordinary days leave the hot tables by themselves (a drill wants to do it itself).
    `modules` names what `python -m` runs for each kind of process; `env` goes to all of them.
    """

    data: Path | None = None
    sets: int = 2
    servers: int = 2
    gateways: int = 1
    host: str = "127.0.0.1"
    port: int = 8080
    slots: int = 100
    rotate: bool = True
    modules: Mapping[str, str] = field(
        default_factory=lambda: {"wallet": "wallet", "setnode": "setnode", "gateway": "gateway"}
    )
    env: Mapping[str, str] = field(default_factory=dict)
    say: Say = say_on_stderr

    def __post_init__(self) -> None:
        """Refuse what one machine does not carry."""
        limits = {"sets": MAX_SETS, "servers": MAX_SERVERS, "gateways": MAX_GATEWAYS}
        for name, most in limits.items():
            if not 1 <= getattr(self, name) <= most:
                raise Refused("config_invalid", f"--{name} must be 1 to {most}, is {getattr(self, name)}")
        highest = 65_536 - self.gateways
        if not 0 <= self.port <= highest:
            raise Refused("config_invalid", f"--port must be 0 to {highest}, is {self.port}")

    def set_names(self) -> list[str]:
        """Return the names: set-1, set-2 and so on."""
        return [f"set-{number}" for number in range(1, self.sets + 1)]

    def server_names(self, set_name: str) -> list[str]:
        """Return the names: set-1-a, set-1-b and so on."""
        return [f"{set_name}-{chr(ord('a') + number)}" for number in range(self.servers)]
