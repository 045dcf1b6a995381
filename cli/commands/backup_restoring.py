"""Restores a server for the command, and says what it reached."""

import time
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from audit.report import Report
from backup.backups import Backups
from backup.recovery_point import last_commit
from cli.commands.audit import show as show_audit
from cli.commands.recover_text import left_json, show_claims
from errors import Refused, Unavailable
from installation.access import Access
from local.stable_ports import WALLET
from recovery.claims import LostClaims, find_lost_claims, put_back
from schema import roles


@dataclass(frozen=True)
class Restoring:
    """How a server is restored: where to, to which instant, with what the wallet has paid, audited or not."""

    into: Path
    until: datetime | None
    with_paid: bool
    no_audit: bool


NO_AUDIT = "--no-audit"
_OF_A_COPY = (
    "A copy of a SET that serves, or to an earlier instant, is behind the wallet: each payout since the last commit "
    "kept is named above. `backup restore --with-paid` puts those claims back into a copy that will be opened."
)


@dataclass(frozen=True)
class Restored:
    """What came of it. `seconds`: until the copy took connections. `why`: why it was not audited."""

    server: str
    path: Path
    base_taken_at: datetime
    last_commit: datetime | None
    seconds: float
    audit: Report | None
    why: str
    paid: LostClaims | None

    @property
    def holds(self) -> bool:
        """Whether all that was paid is put back, and the audit, if one was wanted, holds."""
        audited = self.audit is not None and self.audit.holds
        return (audited or self.why == NO_AUDIT) and not (self.paid and self.paid.left_count)

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        paid = self.paid or LostClaims()
        return {
            "server": self.server,
            "path": str(self.path),
            "recovery_point": None if self.last_commit is None else self.last_commit.isoformat(),
            "base_taken_at": self.base_taken_at.isoformat(),
            "seconds": self.seconds,
            "put_back": paid.number,
            "put_back_fen": paid.fen,
            **left_json(paid),
            "audit": None if self.audit is None else self.audit.as_json(),
            "not_audited": self.why or None,
        }

    def show(self, console: Console) -> None:
        """Print it for a person."""
        console.print(f"{self.server} is restored in {self.path}, in {self.seconds} s", highlight=False)
        last = self.last_commit
        kept = "none after the base copy" if last is None else f"{last:%Y-%m-%d %H:%M:%S.%f} UTC"
        taken = f"{self.base_taken_at:%Y-%m-%d %H:%M:%S} UTC"
        console.print(f"last commit kept: {kept}; base copy of {taken}", highlight=False)
        if self.paid is not None:
            show_claims(self.paid, console, done=True)
        if self.audit is not None:
            show_audit(self.audit, console)
            if not self.audit.holds:
                console.print(_OF_A_COPY, highlight=False)
        else:
            console.print(f"it was not audited: {self.why}", highlight=False)


async def restore(access: Access, backups: Backups, how: Restoring) -> Restored:
    """Restore, put back what the wallet has paid, audit; the restored server has stopped then.

    Where it is put back the wallet's database must answer: raises Unavailable, and the copy stands as it was restored.
    """
    name = backups.source.name
    if how.with_paid and name == WALLET:
        raise Refused("wallet_has_no_claims", "--with-paid is for a SET; a wallet is made good by ./run recover wallet")
    began, base = time.monotonic(), backups.folder.base_for(how.until)
    log = how.into / "restore.log"
    before = log.stat().st_size if log.exists() else 0
    server = await backups.restore(how.into, how.until)
    seconds = round(time.monotonic() - began, 1)
    paid: LostClaims | None = None
    audit: Report | None = None
    why = NO_AUDIT if how.no_audit else ""
    try:
        copy = server.dsn(roles.AUDIT, roles.DATABASE)
        if how.with_paid:
            paid = LostClaims()
            target = replace(access.audit_target(name), dsn=copy)
            async with aclosing(find_lost_claims(target, access.wallet_dsn(), paid)) as found:
                await put_back(server.dsn(roles.OWNER, roles.DATABASE), found)
        if not how.no_audit:
            try:
                audit = await access.audit(instead={name: copy})
            except Unavailable as away:
                why = away.detail
    finally:
        await server.stop()
    commit = last_commit(log, before)
    return Restored(name, server.spec.folder, base.taken_at, commit, seconds, audit, why, paid)
