"""What there is to watch: the parts of an installation, with what a runner on this machine knows of each."""

import msgspec

from errors import Refused
from installation import parts
from installation.access import Access
from installation.data_folder import DataFolder
from installation.parts import Kind
from local import running
from local.running import RunningPart


class Part(parts.Part, frozen=True, kw_only=True):
    """`pid` 0: not a process of this machine."""

    pid: int = 0
    restarts: int = 0

    @property
    def has_others(self) -> bool:
        """Whether others of its name do the same at other places: the wallet of another host, members of a Postgres."""
        return "@" in self.name and self.kind is not Kind.MEMCACHED

    @property
    def title(self) -> str:
        """Its name without its place."""
        return self.name.partition("@")[0]


async def keep_up(access: Access, folder: DataFolder) -> None:
    """Bring topology and switches of this host up to date, unless a runner of this machine does."""
    if not folder.running.exists():
        await access.refresh()


async def parts_of(access: Access, folder: DataFolder) -> list[Part]:
    """Return all parts, each at each of its places (`installation.parts`); raises Refused `topology_invalid`."""
    here = _running(folder)
    known = parts.parts_of(access)
    if not here:
        known = [one for part in known for one in await parts.each_place(access, part)]
    # Several gateways of this machine share a port; each has one of its own, which only the runner knows.
    own = [one for name, one in here.items() if name.startswith("gateway-")]
    if own:
        known = [*map(_gateway, own), *(one for one in known if one.kind is not Kind.GATEWAY)]
    return [_with_process(part, here.get(part.name)) for part in known]


def _gateway(one: RunningPart) -> parts.Part:
    return parts.Part(name=one.name, kind=Kind.GATEWAY, address=one.address, url=f"http://{one.address}")


def _running(folder: DataFolder) -> dict[str, RunningPart]:
    try:
        return {one.name: one for one in running.load(folder.running).parts}
    except Refused:
        return {}  # it runs by other means, or not at all: then no part answers


def _with_process(part: parts.Part, one: RunningPart | None) -> Part:
    known = msgspec.structs.asdict(part)
    return Part(**known) if one is None else Part(**known, pid=one.pid, restarts=one.restarts)
