"""Whether the ports of the last start are free, while nothing runs."""

import errno
from collections.abc import Iterator
from urllib.parse import urlsplit

from doctor.finding import Finding, Level
from doctor.place import Place
from errors import Refused
from local.config import StackConfig
from local.gateway_ports import check_gateway_ports
from local.stable_ports import last_ports
from machine import ports


def ports_taken(place: Place) -> Iterator[Finding]:
    """Name ports that another program has: a gateway's stops the next start, any other part gets another one."""
    if place.running is not None or (place.access is not None and not place.access.runner):
        return
    found = [*_gateways(place), *_others(place)]
    yield from found or [Finding("ports", Level.OK, "ports", "the ports of the next start are free")]


def _gateways(place: Place) -> Iterator[Finding]:
    urls = [urlsplit(url) for url in place.access.gateway_urls] if place.access is not None else []
    at = [(one.hostname or "", one.port or 80) for one in urls] or [(StackConfig().host, StackConfig().port)]
    for host, port in at:
        try:
            check_gateway_ports(StackConfig(host=host, port=port))
        except Refused as refused:
            do = (
                f"ss -ltnp 'sport = :{port}' says who listens; stop it, or choose another port: ./run --port {port + 1}"
            )
            yield Finding("ports", Level.SOON, "gateway", f"The next start would fail: {refused.detail}.", do)


def _others(place: Place) -> Iterator[Finding]:
    if place.topology is None:
        return
    for part, port in last_ports(place.folder).items():
        error = ports.bind_error(port, ports.LOOPBACK)
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            what = f"Port {port}, at which {part} was, is taken: {part} gets another one at the next start."
            do = f"Nothing, unless something relies on it: then stop what listens (ss -ltnp 'sport = :{port}')."
            yield Finding("ports", Level.NOTE, part, what, do)
