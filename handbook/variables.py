"""The HONGBAO_* variables: the settings of each process, from its struct, and the few that are read without one."""

from typing import Any, Final

import msgspec
from msgspec import inspect

from events.service import EventsSettings
from gateway.service import GatewaySettings
from handbook.markdown import anchor, code, sections, table, text
from ops.service import OpsSettings
from retention.rules import RetentionSettings
from rotation.daemon import DaemonSettings
from runtime.settings import PREFIX, meanings
from setnode.settings import SetnodeSettings
from wallet.service import Settings as WalletSettings

PROCESSES: Final[dict[str, type[msgspec.Struct]]] = {
    "gateway": GatewaySettings,
    "setnode": SetnodeSettings,
    "wallet": WalletSettings,
    "ops": OpsSettings,
    "events": EventsSettings,
    "rotate --daemon": DaemonSettings,
    "retention": RetentionSettings,
}
"""Every process of an installation that has settings, by its name in `python -m`, or in `./run`."""
OTHERS: Final = {
    "HONGBAO_DATA": "Commands: the data folder, where `--data` does not name it.",
    "HONGBAO_INSTALLATION": "Commands: the installation file, where neither `--installation` nor `--data` is named.",
    "HONGBAO_LOG_LEVEL": "Every process: the least level that is logged, `debug`, `info` (unless set), `warning` or "
    "`error`. Commands: the same for standard error, `warning` unless set.",
    "HONGBAO_LOG_STREAM": "Every process: `stdout` logs to standard output, as `hongbao serve` does; unless set to "
    "standard error.",
    "HONGBAO_PG_BIN": "`./run`: the folder with the programs of Postgres; unless set, those that the project brings "
    "along.",
    "HONGBAO_PORTS": "`./run`: the range of ports, `FIRST-LAST`, in which it looks for free ones.",
    "HONGBAO_PYTHON": "`./run` and `./test`: the Python interpreter to make the environment with.",
    "HONGBAO_LINK_SECRET": "`./run` and commands: the root of all link keys, in the place of the one in "
    "`secrets.json`. Every other key of that file can be given in the same way.",
}
"""Variables that no struct has, and what they are for."""
_NAMES: Final = {
    inspect.StrType: "text", inspect.IntType: "whole number", inspect.FloatType: "number", inspect.BoolType: "0 or 1",
}  # fmt: skip


def settings() -> str:
    """Return a table of settings for each process, then the variables that are read without a struct."""
    parts = [part for process, kind in PROCESSES.items() for part in (f"## {process}", _table(process, kind))]
    others = table(("variable", "meaning"), ((code(name), text(meaning)) for name, meaning in OTHERS.items()))
    return sections((*parts, "## Commands and scripts", others))


def _table(process: str, kind: type[msgspec.Struct]) -> str:
    told, prefix = meanings(kind), process.partition(" ")[0]
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind} is no struct")
    return table(
        ("variable", "type and bounds", "unless set", "meaning"),
        (
            (
                f"{anchor(f'{prefix}-{one.name}')}{code(PREFIX + one.name.upper())}",
                _type(one.type),
                "must be set" if one.required else _default(one.default),
                text(told[one.name]),
            )
            for one in info.fields
        ),
    )


def _type(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(code(str(one)) for one in kind.values)
    bounds: list[str] = []
    if isinstance(kind, inspect.StrType):
        if kind.min_length is not None and kind.max_length is not None:
            bounds.append(f"{kind.min_length} to {kind.max_length} characters")
        elif kind.min_length is not None:
            bounds.append(f"at least {kind.min_length} characters")
        if kind.pattern is not None:
            bounds.append(f"pattern {code(kind.pattern)}")
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        words = {"ge": "from", "gt": "above", "le": "up to", "lt": "below"}
        given = {name: getattr(kind, name) for name in words}
        bounds += [f"{words[name]} {value:,}" for name, value in given.items() if value is not None]
    return ", ".join([_NAMES[type(kind)], *bounds])


def _default(value: Any) -> str:
    if value == "":
        return "empty"
    return code(str(int(value)) if isinstance(value, bool) else str(value))
