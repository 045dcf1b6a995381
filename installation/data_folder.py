"""The data folder of an installation on this machine: where it is, what it contains, one stack at a time."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from errors import Refused
from installation.inventory import DEFAULT_NAME
from machine.account import Account, server_account
from machine.checkout import CHECKOUT
from machine.file_lock import hold_lock
from machine.writers import other_writers
from objectstore.address import is_address

FALLBACK = Path("/var/lib")


@dataclass(frozen=True)
class DataFolder:
    """`note`: a sentence for the operator if the folder is not where they would look for it.

    `file`: the inventory, if it was named and not the folder; the folder is the one in which it is.
    """

    path: Path
    note: str = ""
    file: Path | None = None

    @property
    def named(self) -> Path:
        """What names the installation to a command: the inventory if it was named, else the folder."""
        return self.file or self.path

    @property
    def secrets(self) -> Path:
        """Keys and passwords, 0600."""
        return self.path / "secrets.json"

    @property
    def topology(self) -> Path:
        """Which SET holds which database, and where its servers are; 0600."""
        return self.path / "topology.json"

    @property
    def inventory(self) -> Path:
        """What is installed, 0600; stays when nothing runs (`installation.inventory`)."""
        return self.file or self.path / DEFAULT_NAME

    @property
    def running(self) -> Path:
        """Which processes run now; exists while a stack is up (`local.running`)."""
        return self.path / "running.json"

    @property
    def sandbox_clock(self) -> Path:
        """By how much a sandbox's clock is ahead; only a sandbox has it (`runtime.sandbox_clock`)."""
        return self.path / "sandbox-clock"

    @property
    def archive_place(self) -> str:
        """Archived days: the folder `archive` in the data folder, or what HONGBAO_ARCHIVE names."""
        named = os.environ.get("HONGBAO_ARCHIVE", "")
        return named if is_address(named) else str(self.archive)

    @property
    def archive(self) -> Path:
        """Archived days in a folder: in the data folder, or in HONGBAO_ARCHIVE."""
        named = os.environ.get("HONGBAO_ARCHIVE")
        return Path(named).absolute() if named and not is_address(named) else self.path / "archive"

    @property
    def clusters(self) -> Path:
        """The folder of all Postgres clusters."""
        return self.path / "postgres"

    @property
    def certificates(self) -> Path:
        """The folder of the CA and all certificates (`installation.certificates`), which need not be there."""
        return self.path / "certificates"

    def postgres(self, name: str) -> Path:
        """Return the folder of a Postgres cluster."""
        return self.clusters / name

    @property
    def logs(self) -> Path:
        """The logs of all parts and of the supervisor."""
        return self.path / "logs"

    def log(self, name: str) -> Path:
        """Return the log file of a part."""
        return self.logs / f"{name}.log"

    def prepare(self, account: Account) -> None:
        """Make the folder if there is none: `account` can enter it, only we can list it.

        One that is there is used as it is. Raises Refused `data_folder_unwritable`, `data_folder_open` (other users may
        write there) or `data_folder_unreachable`; nothing is changed then.
        """
        try:
            if not self.path.exists():
                self.path.mkdir(parents=True, mode=0o700)
                self.path.chmod(0o711 if account.drop_privileges else 0o700)
            others = other_writers(self.path)
        except OSError as error:
            raise Refused(
                "data_folder_unwritable", f"cannot use {self.path} ({error.strerror}); choose another with --data"
            ) from error
        if others:
            raise Refused(
                "data_folder_open",
                f"{others} may write to {self.path}; choose a folder of your own with --data, such as "
                f"{self.path / 'hongbao'}",
            )
        if not account.can_access("-x", self.path):
            raise Refused(
                "data_folder_unreachable",
                f"Postgres runs as {account.name}, which cannot enter {self.path}; choose another folder with --data, "
                f"or let it pass: chmod o+x {self.path}",
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for the block; raises Refused `already_up`. The kernel releases it if the process ends."""
        with hold_lock(
            self.path / "lock",
            lambda holder: Refused(
                "already_up",
                f"hongbao is already up on {self.path} (process {holder}); stop it, or choose another with --data",
            ),
        ):
            yield


def locate(explicit: Path | None, account: Account | None = None) -> DataFolder:
    """Return what was named, else HONGBAO_INSTALLATION, HONGBAO_DATA, `data` in the checkout. Nothing is made.

    `explicit` is a data folder, or the inventory of an installation: then the data folder is the one in which it lies.
    If `account`, which servers run as (default: `server_account`), cannot enter the checkout: a folder in /var/lib.
    """
    given = os.environ.get("HONGBAO_INSTALLATION") or os.environ.get("HONGBAO_DATA")
    named = explicit or (Path(given) if given else None)
    if named is not None:
        named = named.absolute()
        return DataFolder(named.parent, file=named) if named.suffix == ".toml" else DataFolder(named)
    account = account or server_account()
    if not account.drop_privileges or account.can_access("-x", CHECKOUT):
        return DataFolder(CHECKOUT / "data")
    path = FALLBACK / f"hongbao-{hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:12]}"
    return DataFolder(path, f"Postgres runs as {account.name}, which cannot enter {CHECKOUT}: the data is in {path}")
