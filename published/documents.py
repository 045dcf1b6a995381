"""The documents that are published, and the files in which a host keeps the newest of each."""

from pathlib import Path
from typing import Final, NamedTuple

from sharding.topology import adopt
from switches.file import adopt as adopt_switches
from switches.file import beside

TOPOLOGY: Final = "topology"
SWITCHES: Final = "switches"
NAMES: Final = (TOPOLOGY, SWITCHES)


class Document(NamedTuple):
    """One version of a document; `content` is the text of the file, JSON."""

    name: str
    version: int
    content: str


def keep(document: Document, topology: Path) -> bool:
    """Write a document to this host's file, unless that has it; returns whether it was written. Durable on return.

    `topology` is the topology file; the switches are beside it. A topology file that is newer is left alone; switches
    are merged (`switches.file.adopt`). Raises Refused `topology_invalid` or `switches_unreadable`: then the file stays
    as it is.
    """
    if document.name == TOPOLOGY:
        return adopt(topology, document.content.encode())
    return adopt_switches(beside(topology), document.content, document.version)
