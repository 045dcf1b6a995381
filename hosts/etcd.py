"""Three etcd, in which Patroni keeps who leads: each on a host of its own, on the back network alone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from errors import Unavailable
from hosts.host import Host
from hosts.limits import ETCD_S, LOOK_S
from hosts.program import HostProgram
from hosts.shell import inside
from machine.account import Account
from machine.debian_programs import Program, find_program

CLIENTS, PEERS = 2379, 2380


async def find_etcd(account: Account, data: Path) -> Program:
    """Return Debian's etcd; raises Refused `no_etcd`."""
    return await find_program("etcd", account, data, package="etcd-server")


def etcd_servers(program: Program, hosts: Sequence[Host], account: Account) -> list[HostProgram]:
    """Return one etcd for each host, not started; together they are one cluster."""
    cluster = ",".join(f"{one.name}=http://{one.back}:{PEERS}" for one in hosts)
    return [_server(program, one, cluster, account) for one in hosts]


def _server(program: Program, host: Host, cluster: str, account: Account) -> HostProgram:
    data = host.folder / "etcd"
    data.mkdir(mode=0o700)
    account.chown(data)
    words = {
        "name": host.name,
        "data-dir": str(data),
        "listen-peer-urls": f"http://{host.back}:{PEERS}",
        "initial-advertise-peer-urls": f"http://{host.back}:{PEERS}",
        "listen-client-urls": f"http://{host.back}:{CLIENTS}",
        "advertise-client-urls": f"http://{host.back}:{CLIENTS}",
        "initial-cluster": cluster,
        "initial-cluster-state": "new",
        # A machine with two cores keeps a server waiting for longer than etcd's 100 ms and 1 s allow.
        "heartbeat-interval": "250",
        "election-timeout": "2500",
        "log-level": "warn",
        "auto-compaction-retention": "1",
    }
    argv = [str(program.path), *(f"--{name}={value}" for name, value in words.items())]
    # One thread that runs Go: it holds a few keys.
    return HostProgram("etcd", host, account, argv, {**program.env(), "GOMAXPROCS": "1"})


async def wait_for_etcd(servers: Sequence[HostProgram]) -> None:
    """Wait until each answers that it is healthy, which takes a leader. Raises Unavailable `etcd_failed`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + ETCD_S
    for one in servers:
        while not await _healthy(one):
            if not one.running or loop.time() > end:
                raise Unavailable("etcd_failed", f"etcd on {one.host.name} is not healthy: {one.log.tail(3)}")
            await asyncio.sleep(LOOK_S)


async def _healthy(one: HostProgram) -> bool:
    """Ask from inside: this machine itself is not on the back network."""
    probe = f"exec 3<>/dev/tcp/{one.host.back}/{CLIENTS} && printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
    process = await asyncio.create_subprocess_exec(
        *inside(one.host.namespace), "timeout", "2", "bash", "-c", probe,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    out, _ = await process.communicate()
    return b'"health":"true"' in out
