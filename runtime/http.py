"""HTTP that every process serves: `/healthz`, `/readyz`, `/metrics`, and a listener with a bounded stop."""

import ssl
from collections.abc import Callable
from typing import Any, Self

from aiohttp import web

from runtime import listening, metrics

CLOSE_S = 1.0
"""For requests in progress at a stop; less than the whole process has (`process.STOP_S`)."""


class Readiness:
    """Named parts that must all be up for `/readyz` to answer 200."""

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], bool]] = {}
        self._notes: dict[str, Callable[[], bool]] = {}
        self._reasons: list[Callable[[], str]] = []
        self.leaving = False
        """Whether the process is about to stop: balancers are to send their clients elsewhere."""

    def require(self, part: str, check: Callable[[], bool]) -> None:
        """Add a part; `check` is called at every `/readyz`: it returns at once."""
        self._checks[part] = check

    def require_at_start(self, part: str, check: Callable[[], bool]) -> None:
        """Add a part that must have been up at one `/readyz`, and may be away at later ones.

        It is for what a process can do without: if balancers took all of these processes out, what still works would
        end, too.
        """
        seen = False

        def was_up() -> bool:
            nonlocal seen
            seen = seen or check()
            return seen

        self.require(part, was_up)

    def note(self, sentence: str, holds: Callable[[], bool]) -> None:
        """Add a sentence that `/readyz` shows while `holds()`: an operator must look, and requests are served."""
        self._notes[sentence] = holds

    def explain(self, reason: Callable[[], str]) -> None:
        """Add what says why a part is not up, as a sentence of now; "" while there is nothing to say."""
        self._reasons.append(reason)

    def notes(self) -> list[str]:
        """Return the sentences that hold."""
        said = [sentence for sentence, holds in self._notes.items() if holds()]
        return [*said, *(sentence for reason in self._reasons if (sentence := reason()))]

    def missing(self) -> list[str]:
        """Return the parts that are not up."""
        if self.leaving:
            return ["its own end: it stops"]
        return [part for part, check in self._checks.items() if not check()]


def add_probes(app: web.Application, readiness: Readiness) -> None:
    """Add `/healthz` (the process answers), `/readyz` (every part is up, else 503) and `/metrics` to `app`.

    They ask for no key: a process that uses this listens where only our own machines reach it.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        missing = readiness.missing()
        body: dict[str, Any] = {"status": "waiting" if missing else "ready", "waiting_for": missing}
        if notes := readiness.notes():
            body["notes"] = notes
        return web.json_response(body, status=503 if missing else 200)

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), content_type="text/plain", charset="utf-8")

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", exposition)


class HttpServer:
    """One listener of one application, or of one low-level server, as an async context.

    Entering it raises as `listening.refusal` if it cannot listen.
    """

    def __init__(
        self,
        app: web.Application | web.Server,
        host: str,
        port: int,
        *,
        reuse_port: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: speak TLS alone, by this context (`runtime.tls`)."""
        self._runner: web.BaseRunner = (
            web.ServerRunner(app, shutdown_timeout=CLOSE_S)
            if isinstance(app, web.Server)
            else web.AppRunner(
                app, access_log=None, handle_signals=False, shutdown_timeout=CLOSE_S, keepalive_timeout=75.0
            )
        )
        self._host = host
        self._port = port
        self._reuse_port = reuse_port
        self._tls = tls

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(
            self._runner,
            self._host,
            self._port,
            backlog=4096,
            reuse_port=self._reuse_port or None,
            ssl_context=self._tls,
        )
        try:
            await site.start()
        except (OSError, UnicodeError) as error:
            await self._runner.cleanup()
            raise listening.refusal(self._host, self._port, error) from error
        return self

    @property
    def port(self) -> int:
        """The port bound; another one than given only if that was 0."""
        return int(self._runner.addresses[0][1])

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
