"""The blocks of code in a page of Markdown, with the mark that says which test runs them, or why none does."""

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
_MARK = re.compile(r"<!-- (run by|not run): (.+) -->")
_FROM_CODE = re.compile(r"<!-- from the code: ([\w-]+) -->")
_FENCE = re.compile(r"^(`{3,})(\S*)")


class Block(NamedTuple):
    """`language` is empty for an indented block, `run_by` the path of a test, `why_not` the reason; one is set."""

    language: str
    code: str
    line: int
    run_by: str
    why_not: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order. What Sphinx itself reads (`{toctree}`) is none, nor what the code makes."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    at = 0
    while at < len(lines):
        begin = at
        if made := _FROM_CODE.fullmatch(lines[at]):
            end_mark = f"<!-- end of {made[1]} -->"
            at = lines.index(end_mark, at) if end_mark in lines else at + 1
            continue
        fence = _FENCE.match(lines[at])
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].startswith(fence[1]))
            code, at, language = lines[begin + 1 : end], end + 1, fence[2]
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()) and not _in_list(lines, at):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            code, language = [one[4:] for one in lines[begin:at]], ""
        else:
            at += 1
            continue
        if not language.startswith("{"):
            mark = _mark_before(lines, begin)
            kind, said = (mark[1], mark[2]) if mark else ("", "")
            run_by, why_not = (said if kind == "run by" else ""), (said if kind == "not run" else "")
            found.append(Block(language, "\n".join(code).rstrip() + "\n", begin + 1, run_by, why_not))
    return found


def _mark_before(lines: list[str], begin: int) -> re.Match[str] | None:
    before = begin - 1
    while before > 0 and not lines[before].strip():
        before -= 1
    return _MARK.fullmatch(lines[before]) if before >= 0 else None


def _in_list(lines: list[str], at: int) -> bool:
    """Say whether an indented line goes on with the item of a list."""
    before = at - 1
    while before >= 0 and (not lines[before].strip() or lines[before].startswith("  ")):
        before -= 1
    return before >= 0 and re.match(r"(?:[-*]|\d+\.) ", lines[before]) is not None
