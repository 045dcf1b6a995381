"""A process that cannot listen says so as a sentence, whichever listener it has."""

import socket
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from errors import Refused
from runtime import listening
from runtime.http import HttpServer


async def _bare(host: str, port: int) -> None:
    listening.close_all(listening.listen(host, port))


async def _http(host: str, port: int) -> None:
    async with HttpServer(web.Application(), host, port):
        pass


Listen = Callable[[str, int], Awaitable[None]]
both = pytest.mark.parametrize("listen", [_bare, _http])


@both
async def test_an_address_that_is_taken(listen: Listen) -> None:
    """The sentence names the address, and the port is free again for whoever comes next."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Refused, match=f"127.0.0.1:{port}") as caught:
            await listen("127.0.0.1", port)
        assert caught.value.code == "port_taken"
    await listen("127.0.0.1", port)


@both
@pytest.mark.parametrize("host", ["192.0.2.1", "a" * 70])
async def test_an_address_of_nobody_here(listen: Listen, host: str) -> None:
    """An address of another machine, or what is no name at all."""
    with pytest.raises(Refused, match=host) as caught:
        await listen(host, 0)
    assert caught.value.code == "host_invalid"
