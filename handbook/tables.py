"""The tables: columns, keys and what each is for, from the readable schema `schema/set.sql` and `schema/wallet.sql`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from handbook.markdown import anchor, code, sections, table, text

FOLDER: Final = Path(__file__).resolve().parents[1] / "schema"
_BEGINS: Final = re.compile(r"CREATE TABLE (\w+) \((.*)")
_INDEX: Final = re.compile(r"^CREATE (UNIQUE )?INDEX (\w+) ON (\w+) ([^;]+);", re.MULTILINE)
_COLUMN: Final = re.compile(r"([a-z_0-9]+) +([a-z]+(?:\(\d+\))?(?:\[\])?)(.*)")
_RULES: Final = ("PRIMARY", "CONSTRAINT", "CHECK", "UNIQUE")


class Column(NamedTuple):
    """A column as the schema has it."""

    name: str
    kind: str
    rule: str
    comment: str


class Written(NamedTuple):
    """A table as the schema has it: the comment before it, the lines in its parentheses, what follows these."""

    name: str
    comment: str
    body: list[str]
    after: str


def tables(name: str) -> str:
    """Return every table of `schema/NAME.sql` with the comment that stands before it."""
    source = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    indexes: dict[str, list[str]] = {}
    for unique, index, of, rest in _INDEX.findall(source):
        kind = "unique index" if unique else "index"
        indexes.setdefault(of, []).append(f"{kind} {code(index)}: {code(' '.join(rest.split()))}")
    return sections(_table(one, indexes.get(one.name, []), name) for one in _written(source))


def _written(source: str) -> Iterator[Written]:
    """Find the tables: a comment, `CREATE TABLE name (`, lines, and a line that begins with `)` and ends with `;`."""
    lines, comment = iter(source.splitlines()), []
    for line in lines:
        if line.startswith("--"):
            comment.append(line.removeprefix("--").strip())
            continue
        if found := _BEGINS.fullmatch(line):
            body, end = [], found[2]
            while not end.startswith(")"):
                body.append(end)
                end = next(lines)
            yield Written(found[1], " ".join(comment), body, end.removeprefix(")").rstrip(";").strip())
        comment = []


def _table(one: Written, indexes: list[str], schema: str) -> str:
    columns, rules = _read(one.body)
    kept = [*([code(one.after)] if one.after else []), *rules, *indexes]
    return sections(
        (
            f"### {one.name}",
            anchor(f"{schema}.{one.name}"),
            text(one.comment),
            _columns(columns),
            "\n".join(f"- {rule}" for rule in kept),
        )
    )


def _columns(columns: list[Column]) -> str:
    if not any(one.rule for one in columns):
        return table(("column", "type", "meaning"), ((code(one.name), one.kind, text(one.comment)) for one in columns))
    return table(
        ("column", "type", "rule", "meaning"),
        ((code(one.name), one.kind, code(one.rule) if one.rule else "", text(one.comment)) for one in columns),
    )


def _read(body: list[str]) -> tuple[list[Column], list[str]]:
    """Return the columns of a table, and its rules, each with the comment that stands before or behind it."""
    columns: list[Column] = []
    rules: list[tuple[str, str]] = []
    before: list[str] = []
    for line in body:
        written, _, comment = (part.strip() for part in line.partition("--"))
        found = _COLUMN.fullmatch(written.rstrip(","))
        if not written:
            before += [comment] if comment else []
        elif written.startswith(_RULES):
            rules.append((written, " ".join([*before, comment]).strip()))
            before = []
        elif found is not None and not rules:
            columns.append(Column(found[1], found[2], found[3].strip(), comment))
        else:
            rules[-1] = f"{rules[-1][0]} {written}", rules[-1][1]
    return columns, [code(rule.rstrip(",")) + (f": {text(comment)}" if comment else "") for rule, comment in rules]
