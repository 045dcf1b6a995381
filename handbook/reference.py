"""The parts of the reference that are read from the code, by the name that a page's mark gives."""

from collections.abc import Callable, Mapping
from typing import Final

from handbook import api, commands, events, figures, problems, tables, variables

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "operations": api.operations,
    "objects": api.objects,
    "problems": problems.problems,
    "advice": problems.advice,
    "commands": commands.commands,
    "settings": variables.settings,
    "metrics": figures.metrics,
    "event-envelope": events.envelope,
    "events": events.events,
    "set-tables": lambda: tables.tables("set"),
    "wallet-tables": lambda: tables.tables("wallet"),
}
"""Each returns Markdown."""
