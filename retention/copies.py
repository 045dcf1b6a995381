"""Base copies of one server, and the log that they need."""

import asyncio

from backup.folder import BackupFolder
from backup.retention import PrunePlan, plan_prune
from retention.held import Held, changed_meanwhile, size_of


class Copies:
    """The newest `keep` copies of a server stay, with all log since the oldest of them (`backup.retention`)."""

    def __init__(self, folder: BackupFolder, server: str, keep: int) -> None:
        self.name = f"backups of {server}"
        self.rule = f"the newest {keep}, and the log since"
        self._folder = folder
        self._keep = keep

    async def look(self) -> Held:
        """Say what is held."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Held:
        where, bases = str(self._folder.home), self._folder.bases()
        plan = plan_prune(self._folder, self._keep)
        return Held(
            self.name,
            where,
            self.rule,
            items=len(bases),
            bytes=size_of(self._folder.home),
            oldest=bases[0].taken_at if bases else None,
            past=len(plan.bases) + len(plan.segments),
            past_bytes=plan.bytes,
            names=_names(plan),
        )

    async def remove(self, held: Held) -> Held:
        """Remove what was named; raises Refused `changed_meanwhile` if a copy was taken or is gone since."""
        plan = await asyncio.to_thread(plan_prune, self._folder, self._keep)
        if _names(plan) != held.names:
            raise changed_meanwhile(self.name)
        await asyncio.to_thread(plan.remove)
        return held


def _names(plan: PrunePlan) -> tuple[str, ...]:
    return (*(base.path.name for base in plan.bases), *(path.name for path in plan.segments))
