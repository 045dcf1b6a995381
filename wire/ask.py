"""One HTTP request to a server of ours, as one of our own processes: both ends prove their key (`wire.handshake`)."""

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp

from wire.handshake import PROOF_HEADER, Prover
from wire.keys import LinkKey


async def ask(
    session: aiohttp.ClientSession, key: LinkKey, name: str, url: str, params: Mapping[str, str] | None = None
) -> bytes:
    """Return the body of GET `url` from the server `name`; raises LinkRefused or aiohttp.ClientError.

    The body is returned only if the server has proven to be `name`.
    """
    prover = Prover(key, name, urlsplit(url).path)
    answer = await greet(session, prover, url, params)
    async with session.get(
        url, params=params, headers={"Authorization": answer}, allow_redirects=False
    ) as response:  # fmt: skip
        if response.status == HTTPStatus.UNAUTHORIZED:
            raise prover.refused()
        if response.status == HTTPStatus.FORBIDDEN and PROOF_HEADER not in response.headers:
            raise prover.wrong_certificate()
        prover.check(response.headers.get(PROOF_HEADER, ""))
        response.raise_for_status()
        return await response.read()


async def greet(
    session: aiohttp.ClientSession, prover: Prover, url: str, params: Mapping[str, str] | None = None
) -> str:
    """Ask for a challenge and return the `Authorization` that answers it; a server of version 2 is asked twice.

    Raises as `Prover.answer`, or aiohttp.ClientError.
    """
    while True:
        async with session.get(
            url, params=params, headers={"Authorization": prover.hello}, allow_redirects=False
        ) as response:  # fmt: skip
            answer = prover.answer(response.status, response.headers.get("WWW-Authenticate", ""))
        if answer is not None:
            return answer
