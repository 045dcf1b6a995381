"""Where a secret is, if it is not where it is needed: in an environment variable, or in a file."""

import os
from pathlib import Path

import msgspec

from errors import Refused


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a secret is: in the environment variable `env`, or in the file `file` (an absolute path)."""

    env: str = ""
    file: str = ""

    def read(self, what: str) -> str:
        """Return the secret's text, without the line end of a file; raises Refused `secret_missing`."""
        if self.env:
            text = os.environ.get(self.env, "")
            if not text:
                raise Refused("secret_missing", f"{what} is to be in the environment as {self.env}, and is not there")
            return text
        try:
            text = Path(self.file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused("secret_missing", f"{what} is to be in {self.file}, which cannot be read: {error}") from None
        if not text:
            raise Refused("secret_missing", f"{what} is to be in {self.file}, and that is empty")
        return text

    def __str__(self) -> str:
        """Name the place, for people."""
        return f"${self.env}" if self.env else f"file {self.file}"
