"""Every private name of aiohttp that the gateway uses, checked at import. No other module may use one that is not here.

`gateway.connection` replaces aiohttp's loop over the requests of a connection and so works on the state that the
loop keeps; `gateway.http.request` reads bodies from the parser's buffer. Both are faster by a multiple than the public
way, and neither is promised by aiohttp: pyproject.toml therefore pins aiohttp to the minor version that was read.

To upgrade aiohttp: compare `web_protocol.py`, `base_protocol.py` and `streams.py` of both versions, adapt the two
modules and this list, run tests/integration/gateway, and move the pin (docs/decisions/0008-gateway-request-loop.md).
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import aiohttp
from aiohttp import web, web_protocol
from aiohttp.http import HttpRequestParser
from aiohttp.streams import StreamReader

NAMES: Final[tuple[tuple[Any, tuple[str, ...]], ...]] = (
    (web_protocol, ("ERROR", "_ErrInfo")),
    (
        web.RequestHandler,
        (
            # the queue of parsed requests, and the back-pressure on the parser that fills it
            *("_messages", "_waiter", "_parser", "_buffer_paused", "_reading_paused", "_msg_queue_resume_size"),
            "_resume_reading_if_drained",
            # the request that is being answered, and the shutdown that waits for its end
            *("_current_request", "_request_in_progress", "_handler_waiter"),
            # whether and how long the connection goes on
            *("_close", "_force_close", "_upgraded", "_keepalive", "_keepalive_handle", "_next_keepalive_close_time"),
            "_process_keepalive",
            # the write buffer
            *("_paused", "_drain_helper"),
            # the loop, and the server that made the connection
            *("_loop", "_manager"),
        ),
    ),
    (HttpRequestParser, ("message_consumed",)),
    (StreamReader, ("_buffer",)),
)
"""By owner: a module's names, a class's attributes. `Request._cancel` is the one private name that aiohttp calls."""


def check_names(names: tuple[tuple[Any, tuple[str, ...]], ...] = NAMES) -> None:
    """Raise ImportError, with a sentence that says what to do, if this aiohttp lacks one of `names`."""
    missing = [f"{owner.__name__}.{name}" for owner, wanted in names for name in wanted if not hasattr(owner, name)]
    if missing:
        raise ImportError(
            f"aiohttp {aiohttp.__version__} has no {', '.join(missing)}, which the gateway uses: install the version "
            "that pyproject.toml names, or follow the steps in gateway/http/aiohttp_private.py to upgrade"
        )


check_names()

MALFORMED: Final[Any] = web_protocol.ERROR
"""Stands in for the head of bytes that are no HTTP request."""
MalformedHead: Final[Any] = vars(web_protocol)["_ErrInfo"]
"""What the parser queues for them."""
chunks_of: Final[Callable[[StreamReader], Any]] = attrgetter("_buffer")
"""The parts of a body as they came, without taking them out: a sequence of bytes."""
