"""What is held of one kind, and what of it is past its rule."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from errors import Refused


@dataclass(frozen=True)
class Held:
    """`items` and `bytes` are all of it, `past` and `past_bytes` what the rule does not keep, `names` those of `past`.

    `code` and `why` say why it could not be looked at; then nothing else is known.
    """

    kind: str
    where: str
    rule: str
    items: int = 0
    bytes: int = 0
    oldest: datetime | None = None
    past: int = 0
    past_bytes: int = 0
    names: Sequence[str] = field(default_factory=tuple)
    code: str = ""
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "kind": self.kind,
            "where": self.where,
            "rule": self.rule,
            "items": self.items,
            "bytes": self.bytes,
            "oldest": None if self.oldest is None else self.oldest.isoformat(),
            "past": self.past,
            "past_bytes": self.past_bytes,
            "names": list(self.names),
            "code": self.code or None,
            "why": self.why or None,
        }


class Kind(Protocol):
    """One kind of thing that is kept."""

    name: str
    rule: str

    async def look(self) -> Held:
        """Say what is held; changes nothing. Raises HongbaoError."""

    async def remove(self, held: Held) -> Held:
        """Remove what `look` has named as past its rule, and return what of it was; may be repeated.

        Raises HongbaoError, such as Refused `changed_meanwhile`: then nothing was removed.
        """


def changed_meanwhile(kind: str) -> Refused:
    """Return the error for what is not as it was when somebody looked: whoever applies the rules looks again."""
    text = f"{kind} have changed since they were listed: nothing was removed; run it again"
    return Refused("changed_meanwhile", text)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; what goes meanwhile counts as nothing."""
    total = 0
    for one in (path, *path.rglob("*")) if path.is_dir() else (path,):
        try:
            total += one.stat().st_size if one.is_file() and not one.is_symlink() else 0
        except OSError:
            continue
    return total
