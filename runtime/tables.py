"""Tables at any width: no identifier and no number is cut or broken, and none is wider than it must be."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

UNLIMITED = 100_000
"""The width, in characters, of a file or a pipe: programs read lines as they are."""
READABLE = 28
"""Characters a line that a text in a column gets at least, where the column could otherwise begin another line."""
INDENT = 2
"""Columns that begin another line of the same row are set in by so much."""
_GAP = 2


def print_table(console: Console, table: Table, *, readable: int = READABLE) -> None:
    """Print a table in which no identifier and no number is cut or broken, whatever the width of the console.

    A column is at least as wide as its longest word, or as its longest cell if it is `no_wrap`. If the console is too
    narrow for all columns beside each other, each row takes several lines, the columns in the same places in all rows.
    Only a word that is wider than the console by itself goes beyond it, and the terminal wraps that line.
    `readable`: characters a line that a text gets at least before that.
    """
    least = []
    for column in table.columns:
        column.overflow = "fold"
        least.append(_narrowest(console, column))
        column.min_width = max(least[-1], min(readable, _widest(console, column)))
    spare = console.width - Measurement.get(console, console.options.update_width(UNLIMITED), table).minimum
    if spare >= 0:
        # Rich's own widths may be a little more than there is room for.
        for column, width in zip(table.columns, _widths(console, table.columns, spare), strict=True):
            column.width = width
        console.print(table, crop=False)
        return
    if table.title:
        console.print(table.title, style=table.title_style or "italic", soft_wrap=True)
    groups = list(_groups(table.columns, console.width))
    for column, width in zip(table.columns, least, strict=True):
        column.min_width = width
    headers = [Text.from_markup(one.header) if isinstance(one.header, str) else one.header for one in table.columns]
    _print_row(console, groups, headers if table.show_header else [], "bold")
    for row in zip_longest(*(column.cells for column in table.columns), fillvalue=""):
        _print_row(console, groups, row, "")


def _groups(columns: Sequence[Column], width: int) -> Iterator[list[tuple[int, Column]]]:
    """Yield the columns, with their numbers, that fit beside each other on a line; one that fits nowhere is alone."""
    group: list[tuple[int, Column]] = []
    left = width
    for number, column in enumerate(columns):
        needed = column.min_width or 0
        if group and needed > left:
            yield group
            group, left = [], width - INDENT
        group.append((number, column))
        left -= needed + _GAP
    if group:
        yield group


def _print_row(
    console: Console, groups: Sequence[Sequence[tuple[int, Column]]], cells: Sequence[RenderableType], style: str
) -> None:
    if not cells:
        return
    for place, group in enumerate(groups):
        if place and all(cells[number] == "" for number, _ in group):
            continue
        indent = INDENT if place else 0
        columns, gaps = [column for _, column in group], _GAP * (len(group) - 1)
        spare = console.width - indent - gaps - sum(column.min_width or 0 for column in columns)
        grid = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        for column, width in zip(columns, _widths(console, columns, spare), strict=True):
            grid.add_column(width=width, overflow="fold", justify=column.justify, style=style)
        grid.add_row(*(cells[number] for number, _ in group))
        room = max(console.width, indent + sum(one.width or 0 for one in grid.columns) + gaps)
        before, console.width = console.width, room
        try:
            console.print(Padding(grid, (0, 0, 0, indent), expand=False), crop=False)
        finally:
            console.width = before


def _widths(console: Console, columns: Sequence[Column], spare: int) -> list[int]:
    """Return the least width of each column, and `spare` characters to those that can use them, from the left."""
    widths = []
    for column in columns:
        least = column.min_width or 0
        more = max(0, min(spare, _widest(console, column) - least))
        spare -= more
        widths.append(least + more)
    return widths


def _narrowest(console: Console, column: Column) -> int:
    """Return the width of its longest word, or of its longest cell if it is `no_wrap`."""
    return max(cell.maximum if column.no_wrap else cell.minimum for cell in _cells(console, column))


def _widest(console: Console, column: Column) -> int:
    return max(cell.maximum for cell in _cells(console, column))


def _cells(console: Console, column: Column) -> list[Measurement]:
    options = console.options.update_width(UNLIMITED)
    return [Measurement.get(console, options, cell) for cell in (column.header, *column.cells)]
