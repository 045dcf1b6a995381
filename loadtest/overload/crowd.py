"""Runs the crowd (`crowd.lua`, in LuaJIT) and returns what it saw."""

import asyncio
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from errors import Unavailable
from installation.access import Access
from loadtest.openloop.opens import Envelope
from machine.account import server_account
from machine.debian_programs import find_program
from runtime.settings import host_and_port

PATIENCE_S: Final = 1.0
"""How long a person waits before they hang up."""
CONNECTIONS: Final = 12_000
AHEAD: Final = 4_000
"""Connections that stand before people come: they have opened their app before they tap."""
SPARE_S: Final = 30.0
"""For reading the files and for the last answers; after it the crowd is taken to hang."""
_FILES: Final = 60_000
_SCRIPT: Final = Path(__file__).with_name("crowd.lua")


@dataclass(frozen=True)
class Phase:
    """People come for so many seconds at a rate; who is refused or gives up tries again up to `repeats` times."""

    name: str
    seconds: float
    rate: float
    repeats: int = 0


class Seen(msgspec.Struct, frozen=True):
    """What became of the people of one phase.

    Of all `offered` and `repeated` requests `useful` were answered with 2xx within PATIENCE_S, `answers` with a problem
    (by code); `gave_up` waited for nothing, `no_connection` found no free connection, `broken` saw theirs end.
    `skipped` were never sent and `late` sent more than 50 ms late, because this process had no CPU.
    """

    seconds: float
    rate: float
    offered: int
    repeated: int
    useful: int
    gave_up: int
    no_connection: int
    broken: int
    skipped: int
    late: int
    max_late_ms: float
    connections: int
    answers: dict[str, int]
    p50_ms: float
    p99_ms: float
    refused_p50_ms: float
    refused_p99_ms: float
    longest_ms: float
    """The longest that anybody waited for an answer."""

    @property
    def refused(self) -> int:
        """Requests that were answered with a problem."""
        return sum(self.answers.values())

    @property
    def useful_per_s(self) -> float:
        """Useful answers a second."""
        return self.useful / self.seconds

    @property
    def for_nothing(self) -> float:
        """Return the share of requests that were not answered in time."""
        return (self.gave_up + self.no_connection + self.broken) / max(1, self.offered + self.repeated)


class Played(msgspec.Struct, frozen=True):
    """One run of the crowd: its phases, and in each slot of `slot_s` useful answers, refusals, people who gave up."""

    phases: list[Seen]
    sent: int
    slot_s: float
    useful: list[int]
    refused: list[int]
    gave_up: list[int]
    p99_ms: list[float]


@dataclass
class Opens:
    """Files with envelopes and users; `at` is the next open that nobody has sent."""

    envelopes: Path
    tokens: Path
    count: int
    at: int = 0


def write_opens(
    access: Access, made: Sequence[Envelope], users: int, shares: int, folder: Path, person: str = "person"
) -> Opens:
    """Write what the crowd sends: the opens of all shares of envelopes by so many users, named after `person`."""
    envelopes, tokens = folder / "envelopes.txt", folder / "tokens.txt"
    envelopes.write_text("".join(f"{one.envelope_id} {one.share_token}\n" for one in made), encoding="ascii")
    tokens.write_text("".join(f"{access.token(f'{person}-{number}')}\n" for number in range(users)), encoding="ascii")
    return Opens(envelopes, tokens, len(made) * shares)


async def play(
    access: Access, opens: Opens, phases: Sequence[Phase], ahead: int | None = None, most: int = CONNECTIONS
) -> Played:
    """Let the crowd live through the phases; raises Unavailable if it ends early, Refused `no_luajit`.

    `ahead` connections (AHEAD unless given) stand before the first phase, `most` may at any time.
    """
    ahead = AHEAD if ahead is None else ahead
    program = await find_program("luajit", server_account(), opens.envelopes.parent)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, hard) if hard > 0 else _FILES, hard))
    host, port = host_and_port(access.gateway_url.removeprefix("http://"))
    process = await asyncio.create_subprocess_exec(
        str(program.path), str(_SCRIPT), host, str(port), str(opens.envelopes), str(opens.tokens), str(opens.at),
        str(PATIENCE_S), str(ahead), str(most), *(f"{one.seconds}:{one.rate}:{one.repeats}" for one in phases),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=program.env() or None,
    )  # fmt: skip
    try:
        async with asyncio.timeout(sum(one.seconds for one in phases) + SPARE_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if process.returncode:
        raise Unavailable("crowd_failed", f"the crowd ended early: {err.decode(errors='replace').strip()}")
    played = msgspec.json.decode(out, type=Played)
    opens.at += played.sent
    return played
