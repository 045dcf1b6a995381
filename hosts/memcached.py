"""A SET's memcached, on the host of one of its setnodes."""

from hosts.host import Host
from hosts.program import HostProgram
from machine.account import Account
from machine.debian_programs import Program

PORT = 11211


def memcached(program: Program, host: Host, account: Account) -> HostProgram:
    """Return it, not started. It holds a few short lists (`setnode.commit.lease_store`)."""
    words = [
        "-l",
        host.front,
        "-p",
        str(PORT),
        "-U",
        "0",
        "-m",
        "16",
        "-t",
        "1",
        "-o",
        "no_lru_maintainer,no_lru_crawler",
    ]
    return HostProgram("memcached", host, account, [str(program.path), *words], program.env())
