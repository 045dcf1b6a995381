"""One look at all parts at once: who answers, and what each says of itself."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from errors import HongbaoError
from installation.access import Access
from installation.parts import Kind
from machine.memcached import responds
from ops.limits import ASK_S, METRICS_BYTES
from ops.parts import Part
from runtime import postgres, tls
from runtime.dsn import at_host
from runtime.tls_errors import sentence_of

_NO_ANSWER = "no answer"


class Look(msgspec.Struct, frozen=True):
    """What one part said. `up`: it answers, and is ready. `text`: its metrics, "" if it has none or did not answer."""

    up: bool
    detail: str = ""
    text: str = ""


class Scraper:
    """Asks parts; keeps its connections between two looks, and drops them in `rest`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._http: aiohttp.ClientSession | None = None
        self._databases: dict[str, Any] = {}

    async def look(self, parts: Iterable[Part]) -> dict[str, Look]:
        """Ask all parts at once; ends after ASK_S, whatever they do."""
        asked = list(parts)
        looks = await asyncio.gather(*(self._look_at(part) for part in asked))
        return {part.name: look for part, look in zip(asked, looks, strict=True)}

    async def rest(self) -> None:
        """Close all connections: nobody watches."""
        databases, self._databases = list(self._databases.values()), {}
        for one in databases:
            await postgres.close(one)
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _look_at(self, part: Part) -> Look:
        try:
            async with asyncio.timeout(ASK_S):
                if part.kind is Kind.POSTGRES:
                    return await self._ask_database(part)
                if part.kind is Kind.MEMCACHED:
                    return Look(await responds(part.address))
                return await self._ask_process(part)
        except TimeoutError:
            self._drop(part.name)
            return Look(up=False, detail=_NO_ANSWER)

    async def _ask_process(self, part: Part) -> Look:
        # The key is for gateways alone: it is sent as it is.
        headers = self._access.metrics_headers() if part.kind is Kind.GATEWAY else {}
        try:
            ready, text = await asyncio.gather(self._get(part, "/readyz"), self._get(part, "/metrics", headers))
        except (aiohttp.ClientError, OSError) as error:
            if sentence := sentence_of(error, part.url):
                return Look(up=False, detail=sentence)
            refused = isinstance(error, aiohttp.ClientConnectorError)
            return Look(
                up=False, detail="nothing listens there" if refused else f"{_NO_ANSWER}: {type(error).__name__}"
            )
        up = ready[0] == HTTPStatus.OK
        said = text[1] if text[0] == HTTPStatus.OK else ""
        return Look(up=up, detail="" if up else f"not ready: {ready[1][:200]}", text=said)

    async def _get(self, part: Part, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        if self._http is None:
            self._http = tls.session(self._access.tls, timeout=aiohttp.ClientTimeout(total=ASK_S))
        name = part.certified or None
        async with self._http.get(
            f"{part.url}{path}", headers=headers, allow_redirects=False, server_hostname=name
        ) as answer:
            body = bytearray()
            async for chunk in answer.content.iter_chunked(65_536):
                body += chunk
                if len(body) > METRICS_BYTES:
                    raise aiohttp.ClientPayloadError("more than any part of ours says")
            return answer.status, body.decode(errors="replace")

    async def _ask_database(self, part: Part) -> Look:
        try:
            if part.name not in self._databases:
                dsn = self._access.set_dsn(part.server)
                # A member may be a standby, which takes no writes.
                self._databases[part.name] = await postgres.connect(
                    at_host(dsn, part.address) if part.has_others else dsn
                )
            await self._databases[part.name].fetchval("SELECT 1")
        except HongbaoError as error:
            return Look(up=False, detail=error.detail)
        except Exception as error:  # noqa: BLE001 - whatever one database says, the other parts are shown
            self._drop(part.name)
            return Look(up=False, detail=f"{_NO_ANSWER}: {error or type(error).__name__}")
        return Look(up=True)

    def _drop(self, name: str) -> None:
        connection = self._databases.pop(name, None)
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.terminate()
