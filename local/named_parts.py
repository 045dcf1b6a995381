"""The parts of an installation that something else than `./run` starts, as if a runner had started them.

Such a part may be on any host: no process ID, no log and no time of its start is known here.
"""

from installation.access import Access
from installation.parts import each_place, parts_of
from local.running import Running, RunningPart


async def named_parts(access: Access) -> Running:
    """Return all parts, each at each of its places, with the process ID 0; raises Refused `topology_invalid`."""
    found = [one for part in parts_of(access) for one in await each_place(access, part)]
    parts = [
        RunningPart(name=one.name, pid=0, address=one.address, log="", since="", certified=one.certified)
        for one in found
    ]
    return Running(pid=0, since="", parts=parts)
