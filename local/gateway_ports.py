"""The ports of the gateways: as --port says, checked before anything is started."""

import errno
import socket
from typing import NamedTuple

from errors import Refused
from local.config import StackConfig, ports_needed
from machine import ports


class GatewayPorts(NamedTuple):
    """Where gateways listen: each at a port of its own, and several of them also at one that they share."""

    own: list[int]
    shared: int | None


def gateway_ports(config: StackConfig) -> GatewayPorts:
    """Return --port, or a free port for --port 0, and those of each gateway behind it; checks them first."""
    check_gateway_ports(config)
    taken = _fixed_ports(config) or [ports.free_port() for _ in range(ports_needed(config.gateways))]
    return GatewayPorts(taken, None) if config.gateways == 1 else GatewayPorts(taken[1:], taken[0])


def check_gateway_ports(config: StackConfig) -> None:
    """Raise Refused `port_taken`, `port_forbidden` or `host_invalid` if the gateways cannot listen."""
    for port in _fixed_ports(config) or [0]:
        error = ports.bind_error(port, config.host)
        if error is not None or not config.host:
            raise _refusal(config.host, port, error)


def _fixed_ports(config: StackConfig) -> list[int]:
    return [config.port + number for number in range(ports_needed(config.gateways))] if config.port else []


def _refusal(host: str, port: int, error: Exception | None) -> Refused:
    number = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
    if number == errno.EADDRINUSE:
        return Refused("port_taken", f"port {port} on {host} is taken; choose another with --port")
    if number == errno.EACCES:
        return Refused("port_forbidden", f"only root may listen on port {port}; choose one above 1023 with --port")
    return Refused(
        "host_invalid",
        f"--host {host!r} is no IPv4 address or name of this machine; 127.0.0.1 accepts connections from this machine "
        "only, 0.0.0.0 from all its networks",
    )
