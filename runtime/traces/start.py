"""What a process makes of its settings for traces."""

from typing import Final
from urllib.parse import urlsplit, urlunsplit

from errors import Refused
from runtime.traces.span import Tracer
from runtime.version import VERSION

_PATH: Final = "/v1/traces"


def tracer_of(endpoint: str, service: str, instance: str) -> Tracer | None:
    """Return the tracer of the process `instance` of `service`; None if no collector is set.

    Raises Refused `settings_invalid` if `endpoint` is no URL.
    """
    if not endpoint:
        return None
    # Only here: the messages of OTLP take 50 ms to import, and most installations have no collector.
    from runtime.traces.exporter import Exporter  # noqa: PLC0415

    resource = {"service.name": f"hongbao-{service}", "service.instance.id": instance, "service.version": VERSION}
    return Tracer(Exporter(_url(endpoint), resource))


def _url(endpoint: str) -> str:
    """Return where spans are sent: a URL without a path gets that of OTLP."""
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port above 65535, or a bracket that is not closed
        usable = False
    if not usable or not endpoint.isprintable():
        raise Refused("settings_invalid", "HONGBAO_TRACE_ENDPOINT: write it as http://127.0.0.1:4318")
    return endpoint if parts.path.strip("/") else urlunsplit(parts._replace(path=_PATH))
