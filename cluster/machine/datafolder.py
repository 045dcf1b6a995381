"""The data folder: where it is, that one stack has it at a time, and what stands where in it."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.machine.account import Account
from cluster.machine.checkout import CHECKOUT
from cluster.machine.exclusive import held
from envelope.errors import Refused

FALLBACK = Path("/var/lib")


@dataclass(frozen=True)
class DataFolder:
    """A chosen folder. `note` is a sentence for the user when it is not where they would look for it."""

    path: Path
    note: str = ""

    @property
    def secrets(self) -> Path:
        """Keys and passwords, 0600."""
        return self.path / "secrets.json"

    @property
    def topology(self) -> Path:
        """Which SET holds which database."""
        return self.path / "topology.json"

    @property
    def record(self) -> Path:
        """What runs now: addresses, process IDs, DSNs; 0600; there while a stack is up."""
        return self.path / "cluster.json"

    @property
    def archive(self) -> Path:
        """What is stored cold: here, or where HONGBAO_ARCHIVE says."""
        named = os.environ.get("HONGBAO_ARCHIVE")
        return Path(named).absolute() if named else self.path / "archive"

    def postgres(self, name: str) -> Path:
        """Return the folder of a Postgres cluster."""
        return self.path / "postgres" / name

    def log(self, name: str) -> Path:
        """Return the log file of a part."""
        return self.path / "logs" / f"{name}.log"

    def prepare(self, account: Account) -> None:
        """Make the folder; `account` can pass through it, nobody else but us can list it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o711 if account.drop else 0o700)
        except OSError as error:
            raise Refused(
                "data_folder_unwritable", f"cannot use {self.path} ({error.strerror}); choose another with --data"
            ) from error
        if not account.may("-x", self.path):
            raise Refused(
                "data_folder_unreachable",
                f"Postgres runs as {account.name}, who cannot enter {self.path}; choose another folder with --data",
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for this process; the kernel lets go of it however the process ends."""
        with held(
            self.path / "lock",
            lambda holder: Refused(
                "already_up",
                f"hongbao is already up on {self.path} (process {holder}); stop it, or choose another with --data",
            ),
        ):
            yield


def choose(explicit: Path | None, account: Account) -> DataFolder:
    """Return --data, else HONGBAO_DATA, else `data` in the checkout, else a place that the servers can reach."""
    named = explicit or (Path(os.environ["HONGBAO_DATA"]) if os.environ.get("HONGBAO_DATA") else None)
    if named is not None:
        return DataFolder(named.absolute())
    if not account.drop or account.may("-x", CHECKOUT):
        return DataFolder(CHECKOUT / "data")
    path = FALLBACK / f"hongbao-{hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:12]}"
    return DataFolder(path, f"{account.name}, who runs Postgres, cannot enter {CHECKOUT}: the data is in {path}")
