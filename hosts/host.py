"""One host: a network namespace with two cables, and the processes in it.

`front` leads to clients and to the hosts that call each other for them, `back` to etcd and to the other Postgres of a
cluster. A host that is lost has both cables pulled before its processes end: nobody hears a FIN or a RST of it, as of a
machine without power.
"""

import asyncio
import signal
from collections.abc import Sequence
from typing import Literal

from hosts.ground import Ground, end_processes, send
from hosts.limits import MOST_HOSTS
from hosts.shell import ip, processes_in
from hosts.subnet import Subnet

Cable = Literal["front", "back"]
CABLES: tuple[Cable, Cable] = ("front", "back")
_NOWHERE = "02:00:00:00:00:99"
"""An Ethernet address that no interface has: what is sent there is lost without an error."""


class Host:
    """A host named `name`; `number` gives its addresses. Make it with `lay_out`."""

    def __init__(self, name: str, number: int, mine: Ground, subnet: Subnet) -> None:
        self.name = name
        self.namespace = f"{mine.prefix}-{name}"
        self.front, self.back = subnet.addresses(number)
        self.folder = mine.folder / name
        self._ports = {cable: f"{mine.prefix}{cable[0]}{number}" for cable in CABLES}

    def wiring(self, subnet: Subnet, bridges: dict[Cable, str]) -> tuple[list[str], list[str]]:
        """Return the lines for `ip` in this machine's own namespace, and those in the host's."""
        outside, within = [f"netns add {self.namespace}"], ["link set lo up"]
        for cable in CABLES:
            port, bridge = self._ports[cable], bridges[cable]
            outside += [
                f"link add {port} type veth peer name {cable} netns {self.namespace}",
                f"link set {port} master {bridge}",
                f"link set {port} addrgenmode none",
                f"link set {port} up",
            ]
            network = subnet.front if cable == "front" else subnet.back
            address = self.front if cable == "front" else self.back
            within += [
                f"link set {cable} addrgenmode none",
                f"address add {address}/{network.prefixlen} dev {cable}",
                f"link set {cable} up",
            ]
        return outside, within

    async def wire(self, lines: Sequence[str]) -> None:
        """Run lines of `ip` on this host."""
        await ip("-netns", self.namespace, lines=lines)

    async def pull(self, *cables: Cable) -> None:
        """Pull cables: from now on what is sent over them is lost, in silence."""
        await ip(lines=[f"link set {self._ports[one]} down" for one in cables])

    async def plug(self, *cables: Cable) -> None:
        """Put cables back."""
        await ip(lines=[f"link set {self._ports[one]} up" for one in cables])

    async def part_from(self, other: "Host") -> None:
        """Lose all that this host and another send each other over `front`; both reach everybody else."""
        await self.wire([f"neighbour replace {other.front} lladdr {_NOWHERE} dev front nud permanent"])
        await other.wire([f"neighbour replace {self.front} lladdr {_NOWHERE} dev front nud permanent"])

    async def join(self, other: "Host") -> None:
        """End `part_from`."""
        await self.wire([f"neighbour delete {other.front} dev front"])
        await other.wire([f"neighbour delete {self.front} dev front"])

    async def lose(self) -> None:
        """Lose the host: both cables are pulled, then all its processes are killed. Its disk stays."""
        await self.pull(*CABLES)
        await end_processes(self.namespace)

    async def end(self) -> None:
        """Kill all its processes; the cables stay."""
        await end_processes(self.namespace)

    async def freeze(self) -> None:
        """Stop all its processes where they stand (SIGSTOP)."""
        await self._signal_all(signal.SIGSTOP)

    async def thaw(self) -> None:
        """Let them go on (SIGCONT)."""
        await self._signal_all(signal.SIGCONT)

    async def _signal_all(self, number: signal.Signals) -> None:
        # Twice: one that was not stopped yet may have started another.
        for _ in range(2):
            for pid in await processes_in(self.namespace):
                send(pid, number)


async def lay_out(names: Sequence[str], mine: Ground, subnet: Subnet) -> dict[str, Host]:
    """Make both networks and all hosts; returns these by name."""
    if len(names) > MOST_HOSTS:
        raise ValueError(f"a region has at most {MOST_HOSTS} hosts")
    bridges: dict[Cable, str] = {cable: f"{mine.prefix}{cable}" for cable in CABLES}
    lines = [f"link add {one} type bridge" for one in bridges.values()]
    lines += [f"link set {one} up" for one in bridges.values()]
    lines.append(f"address add {subnet.ours}/{subnet.front.prefixlen} dev {bridges['front']}")
    made = {name: Host(name, number, mine, subnet) for number, name in enumerate(names)}
    within: dict[str, list[str]] = {}
    for name, host in made.items():
        outside, within[name] = host.wiring(subnet, bridges)
        lines += outside
        host.folder.mkdir(mode=0o711)
        host.folder.chmod(0o711)
    await ip(lines=lines)
    await asyncio.gather(*(host.wire(within[name]) for name, host in made.items()))
    return made
