"""Why a request was not begun."""

from enum import StrEnum


class Reason(StrEnum):
    """Why a request was not begun; a label of the metric."""

    FULL = "full"
    """The line has no room (`gateway.admission.line`)."""
    PRIORITY = "priority"
    """Others come first (`gateway.admission.threshold`)."""
    WAITED = "waited"
    """It stood in line for LATE_S: the gateway, or the machine, stood still."""
    TIMEOUT = "timeout"
    """Its client has stopped waiting: HONGBAO_CLIENT_WAITS_S, or its header `X-Request-Timeout-Ms`."""
    CONNECTIONS = "connections"
    """As many connections as may be, and a request on each of them."""
