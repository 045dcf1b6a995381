"""A Postgres that fails over, as one server of the installation: its hosts, its DSNs, who leads."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from errors import Unavailable
from hosts.host import Host
from hosts.limits import CLUSTER_S, LOOK_S, MEMBER_S
from hosts.patroni import PORT, REST, SUPERUSER
from hosts.program import HostProgram
from local.service import probe

T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """What Patroni on a host says of it: `role` is `primary`, `replica` or empty, `state` as `running`, `streaming`."""

    role: str = ""
    state: str = ""
    timeline: int = 0
    synchronous: bool = False
    system_identifier: str = ""

    @property
    def follows(self) -> bool:
        """Whether it is a standby that receives what the primary commits."""
        return self.role == "replica" and self.state == "streaming"


class Cluster:
    """One server of the installation (`set-1`, `wallet`): members under Patroni. `passwords` are by role."""

    def __init__(self, name: str, members: Sequence[HostProgram], passwords: Mapping[str, str]) -> None:
        self.name = name
        self.members = list(members)
        self.passwords = passwords

    @property
    def hosts(self) -> list[Host]:
        """The hosts of its members."""
        return [one.host for one in self.members]

    def dsn(self, user: str = SUPERUSER, database: str = "postgres", *, password: bool = True) -> str:
        """Return the DSN of whichever member takes writes, with the password unless that is not wanted."""
        login = f"{quote(user)}:{quote(self.passwords[user], safe='')}" if password else quote(user)
        places = ",".join(f"{one.front}:{PORT}" for one in self.hosts)
        return f"postgresql://{login}@{places}/{quote(database)}?target_session_attrs=read-write"

    async def look(self) -> dict[str, Member]:
        """Ask Patroni on each host, over the front network; a host that does not answer is an empty `Member`."""
        found = await asyncio.gather(*(_ask(one) for one in self.hosts))
        return {one.name: member for one, member in zip(self.hosts, found, strict=True)}

    async def primary(self) -> HostProgram | None:
        """Return the member that leads; None while none does."""
        found = await self.look()
        # An old primary that cannot reach etcd may still say that it leads: the newest timeline does.
        leading = [one for one in self.members if found[one.host.name].role == "primary"]
        return max(leading, key=lambda one: found[one.host.name].timeline, default=None)

    async def wait_until_whole(self, within_s: float = MEMBER_S) -> None:
        """Wait until there is one primary and all others follow it, one of them synchronously.

        Raises Unavailable `cluster_not_whole` with what each says.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while not _whole(found := await self.look()):
            if loop.time() > end:
                text = ", ".join(f"{name}: {one.role or 'no answer'} {one.state}" for name, one in found.items())
                raise Unavailable("cluster_not_whole", f"{self.name} is not whole after {within_s:g} s: {text}")
            await asyncio.sleep(LOOK_S)

    async def wait_until_led(self) -> HostProgram:
        """Wait until a member leads, and return it. Raises Unavailable `cluster_not_whole`."""
        return await self._wait_for("primary", self.primary)

    async def system_identifier(self) -> str:
        """Return the number that initdb gave the cluster. Raises Unavailable `cluster_not_whole`."""

        async def told() -> str | None:
            found = await self.look()
            return next((one.system_identifier for one in found.values() if one.system_identifier), None)

        return await self._wait_for("system identifier", told)

    async def _wait_for(self, what: str, ask: Callable[[], Awaitable[T | None]]) -> T:
        """Ask until there is an answer: on a busy machine that to a single look may come too late."""
        loop = asyncio.get_running_loop()
        end = loop.time() + CLUSTER_S
        while (found := await ask()) is None:
            if loop.time() > end:
                raise Unavailable("cluster_not_whole", f"{self.name} has no {what} after {CLUSTER_S:g} s")
            await asyncio.sleep(LOOK_S)
        return found

    async def begin(self) -> None:
        """Start all members of a new cluster that do not run; it is whole when this returns."""
        for one in self.members:
            if not one.running:
                one.start()
        await self.wait_until_whole(CLUSTER_S)


def _whole(found: Mapping[str, Member]) -> bool:
    primaries = [one for one in found.values() if one.role == "primary" and one.state == "running"]
    followers = [one for one in found.values() if one.follows]
    synchronous = len(found) == 1 or any(one.synchronous for one in followers)
    return len(primaries) == 1 and len(followers) == len(found) - 1 and synchronous


async def _ask(host: Host) -> Member:
    _, _, text = (await probe(host.front, REST, "/patroni")).partition(" ")
    try:
        said = json.loads(text)
    except ValueError:
        return Member()
    state = said.get("replication_state", said.get("state", ""))
    return Member(
        role={"master": "primary", "standby": "replica"}.get(said.get("role", ""), said.get("role", "")),
        state=state,
        timeline=int(said.get("timeline", 0)),
        synchronous=bool(said.get("sync_standby") or said.get("quorum_standby")),
        system_identifier=str(said.get("database_system_identifier", "")),
    )
