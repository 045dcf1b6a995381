"""Settings: one frozen struct per process, read once from the environment.

A field `postgres_dsn` is read from `HONGBAO_POSTGRES_DSN`, or from the file that `HONGBAO_POSTGRES_DSN_FILE` names.
Types, bounds and defaults are those of the struct (msgspec validates); the error for a missing or malformed one names
the variable.
"""

import ast
import inspect
import ipaddress
import itertools
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from errors import Refused
from runtime.dsn import wrong_dsn

PREFIX = "HONGBAO_"

T = TypeVar("T", bound=msgspec.Struct)


def load(kind: type[T], environ: Mapping[str, str] | None = None) -> T:
    """Build `kind` from environment variables; raises Refused(`settings_invalid`)."""
    source = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        name = PREFIX + field.name.upper()
        if name in source:
            values[field.name] = source[name]
        elif f"{name}_FILE" in source:
            values[field.name] = _content(f"{name}_FILE", source)
        elif field.required:
            raise Refused("settings_invalid", f"set {name}: this process does not start without it")
        if wrong := _wrong_dsn(field.name, values.get(field.name, "")):
            raise Refused("settings_invalid", f"{name} {wrong}")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused("settings_invalid", _sentence(str(error))) from error


def _sentence(message: str) -> str:
    """Name the variable in msgspec's sentence, which ends with the field: "… - at `$.listen`"."""
    said, _, field = message.partition(" - at `$.")
    return f"{PREFIX}{field.rstrip('`').upper() or '*'}: {said[:1].lower()}{said[1:]}"


def _wrong_dsn(field: str, text: str) -> str:
    """Return what is wrong with the DSNs of a setting, which is `…_dsn`, or `…_dsns` as `set-1=DSN set-2=DSN`."""
    if field.endswith("_dsn"):
        return wrong_dsn(text)
    some = (one.partition("=")[2] for one in text.split()) if field.endswith("_dsns") else ()
    return next(filter(None, map(wrong_dsn, some)), "")


def _content(name: str, source: Mapping[str, str]) -> str:
    """Return what is in the file of a setting that was given as a file, as engines give secrets to containers."""
    try:
        return Path(source[name]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("settings_invalid", f"{name} names {source[name]!r}, which cannot be read: {error}") from None


def describe(kind: type[msgspec.Struct]) -> str:
    """Return the settings of a process for people: each variable, whether it must be set, and what it is for."""
    return "\n".join(_lines(kind))


def _lines(kind: type[msgspec.Struct]) -> Iterator[str]:
    told = meanings(kind)
    yield "Settings are read from the environment; instead of HONGBAO_X, HONGBAO_X_FILE may name a file with its text:"
    for field in msgspec.structs.fields(kind):
        given = "must be set" if field.required else f"{field.default!r} unless set"
        yield f"  {PREFIX}{field.name.upper()}  ({given})"
        yield from textwrap.wrap(told.get(field.name, ""), 96, initial_indent="      ", subsequent_indent="      ")


def meanings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstring below each field, by field. Python does not keep them, so the source is read."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return found


def host_and_port(listen: str) -> tuple[str, int]:
    """Split `host:port`; raises Refused(`settings_invalid`)."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise Refused("settings_invalid", f"{listen!r} is not host:port")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach `host`. Of names only `localhost` is known to be so."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
