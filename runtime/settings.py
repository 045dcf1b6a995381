"""Settings: one frozen struct per process, read once from the environment.

A field `postgres_dsn` is read from `HONGBAO_POSTGRES_DSN`. Types, bounds and defaults are those of the struct (msgspec
validates); the error for a missing or malformed one names the variable.
"""

import os
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from errors import Refused

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
        elif field.required:
            raise Refused("settings_invalid", f"set {name}: this process does not start without it")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused("settings_invalid", f"{PREFIX}* settings of {kind.__name__}: {error}") from error


def host_and_port(listen: str) -> tuple[str, int]:
    """Split `host:port`; raises Refused(`settings_invalid`)."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise Refused("settings_invalid", f"{listen!r} is not host:port")
    return host.strip("[]"), int(port)
