"""Which versions of the link a process speaks, how two ends agree on one, and what each end tells of itself.

A release speaks its own version and the one before: an installation is upgraded one release at a time, process after
process, while it serves (docs/operations/upgrade.md). Both ends speak the highest version that both have.

From version 3 on each end also tells its release, for logs, and its capabilities: short words for what it does beyond
what its version promises. An end asks for what an older one cannot do only if that has the word. Words that an end does
not know are ignored.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from errors import InvariantBroken
from runtime.version import VERSION as RELEASE

VERSION: Final = 3
"""The newest version that this release speaks: of the handshake and of the messages."""
OLDEST: Final = 2
"""The oldest: that of the release before, which refuses every other."""
ABOUT_SINCE: Final = 3
"""From this version on both ends tell their release and capabilities, and the proofs cover the versions offered."""

BEATS: Final = "beats"
"""Capability of an answering end: it says every `limits.BEAT_S` that it is there, from the first moment on."""

PUBLISHED: Final = "published"
"""Capability of an answering end: it tells what is published (`Op.PUBLISHED`)."""

TRACES: Final = "traces"
"""Capability of an answering end: it has a collector of traces, and wants to hear which calls are traced."""

MOST_WORDS: Final = 32
_WORD: Final = "[a-z][a-z0-9-]{0,23}"
ABOUT: Final = rf"([0-9A-Za-z.+-]{{1,32}}) (-|{_WORD}(?:,{_WORD}){{0,{MOST_WORDS - 1}}})"
"""What an end tells of itself, as text: `RELEASE WORD,WORD`, or `RELEASE -`."""
_word = re.compile(_WORD, re.ASCII)
_about = re.compile(ABOUT, re.ASCII)


class Range(NamedTuple):
    """The versions from `low` to `high` that an end speaks."""

    low: int
    high: int

    @property
    def text(self) -> str:
        """The range on the wire: `2-3`."""
        return f"{self.low}-{self.high}"

    @property
    def words(self) -> str:
        """The range in a sentence."""
        return f"version {self.high}" if self.low == self.high else f"versions {self.low} to {self.high}"


SPOKEN: Final = Range(OLDEST, VERSION)


class Peer(NamedTuple):
    """What an end is known to be: the version that both speak, its release ("" before version 3), its capabilities."""

    version: int = OLDEST
    release: str = ""
    capabilities: frozenset[str] = frozenset()


def agreed(ours: Range, theirs: Range) -> int | None:
    """Return the highest version that both ends speak; None if there is none."""
    highest = min(ours.high, theirs.high)
    return highest if highest >= max(ours.low, theirs.low) else None


def mismatch(ours: Range, theirs: Range, name: str) -> str:
    """Say which end to upgrade where nothing is `agreed` between this process and `name`."""
    behind = f"upgrade {name}" if theirs.high < ours.low else "upgrade this process"
    return (
        f"{name} speaks {theirs.words} of links, this process {ours.words}: {behind}, one release at a time, so that "
        "the two are of one release or of neighbours"
    )


def about(capabilities: Iterable[str]) -> str:
    """Return what this process tells of itself, as ABOUT has it."""
    words = sorted(set(capabilities))
    for word in words:
        if not _word.fullmatch(word):
            raise InvariantBroken("capability_malformed", f"{word!r} is no capability: 24 of a-z, 0-9 and '-' at most")
    return f"{RELEASE} {','.join(words) or '-'}"


def peer_of(version: int, told: str) -> Peer | None:
    """Return what an end of this version tells by `told`; None if that is no ABOUT."""
    found = _about.fullmatch(told)
    if found is None:
        return None
    return Peer(version, found[1], frozenset() if found[2] == "-" else frozenset(found[2].split(",")))
