"""Archived days that were proven: later audits compare manifests and sizes, and read no file."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from archive import place, store
from archive.place import Archive
from audit.proof import AuditTarget, audit
from audit.proofs import Proofs
from audit.report import Report
from errors import Refused
from rotation.drop import drop_day
from schema import roles
from tests.integration.rotation.fixtures import ARCHIVE_KEY, BY, DAY, TODAY, OldDays, old_days

__all__ = ["old_days"]


@dataclass
class Dropped:
    """A day of two databases that only the archive has; audits that keep proofs, and the files that they read."""

    days: OldDays
    archive: Archive
    proofs: Path
    read: list[Path]

    @property
    def folder(self) -> Path:
        """The archive of one of the databases."""
        assert isinstance(self.archive.folder, Path)
        return place.folder_of(self.archive.folder, xx=1, day=DAY)

    async def audit(self, *, full: bool = False) -> Report:
        self.read.clear()
        own, wallet = (
            self.days.databases.dsn_as(dsn, roles.AUDIT) for dsn in (self.days.set_dsn, self.days.wallet_dsn)
        )
        proofs = Proofs(self.proofs, b"a key", full=full)
        return await audit([AuditTarget("set-1", own, range(20))], wallet, archive=self.archive, proofs=proofs)


@pytest.fixture
async def dropped(old_days: OldDays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dropped:
    old_days.real = archive = Archive(tmp_path / "archive", ARCHIVE_KEY)
    await old_days.run()
    await drop_day(old_days.rotation, DAY, TODAY, BY, retention_days=0)
    read: list[Path] = []
    hashed = place.sha256_of

    def noted(path: Path) -> str:
        read.append(path)
        return hashed(path)

    monkeypatch.setattr(place, "sha256_of", noted)
    return Dropped(old_days, archive, tmp_path / "proofs.json", read)


async def test_a_proven_archive_is_not_read_again(dropped: Dropped) -> None:
    """The first audit reads all of it, the next ones nothing, with the same sums; `full` reads it again."""
    first = await dropped.audit()
    assert first.violations == []
    assert dropped.read
    assert first.parts_by_digest == 0
    for _ in range(2):
        again = await dropped.audit()
        assert (again.violations, again.sums, again.parts_by_digest, dropped.read) == ([], first.sums, 2, [])
    assert (await dropped.audit(full=True)).sums == first.sums
    assert dropped.read


SPOILS: dict[str, Callable[[Path], object]] = {
    "it is gone": shutil.rmtree,
    "a file is gone": lambda folder: (folder / "claim.parquet").unlink(),
    "a file was cut": lambda folder: (folder / "claim.parquet").write_bytes(b"PAR1"),
    "it has another's manifest": lambda folder: shutil.copyfile(
        folder.parent / "db_00" / "manifest.json", folder / "manifest.json"
    ),
    "it is signed by nobody": lambda folder: (folder / "manifest.json").write_text("{}"),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
async def test_a_proven_archive_that_is_not_what_it_was(dropped: Dropped, spoil: Callable[[Path], object]) -> None:
    """It is named, and what is put back in its place is read whole before it is believed again."""
    await dropped.audit()
    kept = dropped.folder.with_name("kept")
    shutil.copytree(dropped.folder, kept)
    spoil(dropped.folder)
    found = (await dropped.audit()).violations
    assert [(one.check, one.subject) for one in found] == [("cold_day_is_there", f"db_01 {DAY}")]
    assert found[0].fen > 0
    shutil.rmtree(dropped.folder, ignore_errors=True)
    kept.rename(dropped.folder)
    assert (await dropped.audit()).violations == []
    assert {path.parent for path in dropped.read} == {dropped.folder}
    assert (await dropped.audit()).parts_by_digest == 2
    assert dropped.read == []


async def test_a_changed_byte_is_for_who_reads_bytes(dropped: Dropped) -> None:
    """Of the same size, under the manifest that was proven: `archive verify` finds it, and an audit that reads all."""
    await dropped.audit()
    path = dropped.folder / "claim.parquet"
    content = path.read_bytes()
    path.write_bytes(bytes([*content[:100], content[100] ^ 1, *content[101:]]))
    assert (await dropped.audit()).violations == []
    with pytest.raises(Refused, match="archive_corrupt"):
        await asyncio.to_thread(store.verified, dropped.archive, xx=1, day=DAY)
    found = (await dropped.audit(full=True)).violations
    assert [(one.check, one.subject) for one in found] == [("cold_day_is_there", f"db_01 {DAY}")]
    assert (await dropped.audit()).violations == found, "without a proof it is read each time"
