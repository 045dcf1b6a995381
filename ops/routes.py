"""The paths, what each asks for, and how an error is answered. All of them stand in docs/contract.md."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from errors import HongbaoError, Refused
from installation.access import Access
from ops.actions import Action, Actions
from ops.audits import Audits
from ops.federation import Federation
from ops.journal import Journal
from ops.limits import ACTIONS_SHOWN, BODY_BYTES, STORIES, STORY_S
from ops.pages import HEADERS, Pages
from ops.problems import STATUS, problem, status_of
from ops.reads import Lists
from ops.sessions import PROOF_HEADER, Role, Sessions, Who
from ops.story import story
from ops.watching import Watching
from runtime import logs
from runtime.unreadable import UNREADABLE

_log = logs.get("ops")
_LOCAL: Final = frozenset({"same-origin", "none"})
"""Of `Sec-Fetch-Site`: our own page, and an address that a person has typed."""
Handler = Callable[[web.Request, Who], Awaitable[Any]]
T = TypeVar("T")


class _LoginBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    name: str = ""


class Routes:
    """All handlers. One that takes `who` is called only for those who have proven a key."""

    def __init__(
        self,
        access: Access,
        sessions: Sessions,
        watching: Watching,
        lists: Lists,
        actions: Actions,
        journal: Journal,
        audits: Audits,
        federation: Federation,
    ) -> None:
        self._access = access
        self._sessions = sessions
        self._watching = watching
        self._lists = lists
        self._actions = actions
        self._journal = journal
        self._audits = audits
        self._federation = federation
        self._pages = Pages()
        self._stories = asyncio.Semaphore(STORIES)

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[_answered], client_max_size=BODY_BYTES)
        router = app.router
        router.add_get("/healthz", self._health)
        router.add_get("/readyz", self._health)
        router.add_get("/", _to_page)
        router.add_get("/ops", _to_page)
        router.add_get("/ops/metrics", self._metrics)
        router.add_post("/ops/api/login", self._log_in)
        router.add_post("/ops/api/logout", self._log_out)
        for path, handler in (
            ("session", self._session), ("live", self._live), ("actions", self._done), ("envelopes/{id}", self._story),
            ("switches/{name}/effect", self._effect), ("audit", self._last_audit), ("lists/{name}", self._list),
        ):  # fmt: skip
            router.add_get(f"/ops/api/{path}", self._for(Role.VIEWER, handler))
        router.add_post("/ops/api/actions", self._for(Role.OPERATOR, self._act))
        router.add_post("/ops/api/audit", self._for(Role.OPERATOR, self._audit))
        router.add_get("/ops/{path:.*}", self._page)
        return app

    def _for(self, role: Role, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def guarded(request: web.Request) -> web.StreamResponse:
            who = self._who(request)
            if role is Role.OPERATOR and who.role is not Role.OPERATOR:
                raise Refused("operator_key_needed", "a viewer's key shows; to act, log in with the operator's key")
            return _json(await handler(request, who))

        return guarded

    def _who(self, request: web.Request) -> Who:
        _refuse_foreign_pages(request)
        cookie = request.cookies.get(_cookie_name(request))
        return self._sessions.who(request.headers.get("Authorization"), cookie, request.headers.get(PROOF_HEADER))

    async def _health(self, _: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _page(self, request: web.Request) -> web.Response:
        found = self._pages.answer(request, request.match_info["path"])
        if found is None:
            raise Refused("not_found", "there is no such page here")
        return found

    async def _log_in(self, request: web.Request) -> web.Response:
        _refuse_foreign_pages(request)
        body = await _body(request, _LoginBody)
        try:
            login = self._sessions.log_in(body.key.strip(), body.name)
        except Refused as refusal:
            _log.warning("a login was refused", code=refusal.code, address=request.remote)
            raise
        _log.warning("an operator has logged in", role=login.who.role, name=login.who.name, address=request.remote)
        answer = _json(
            {"role": login.who.role, "name": login.who.name, "until_ms": login.who.until_ms, "proof": login.proof}
        )
        # Without a Path it is for this folder (…/ops/api), whatever a proxy has put before it.
        secure = "; Secure" if request.headers.get("X-Forwarded-Proto") == "https" else ""
        answer.headers["Set-Cookie"] = f"{_cookie_name(request)}={login.cookie}; HttpOnly; SameSite=Strict{secure}"
        return answer

    async def _log_out(self, request: web.Request) -> web.Response:
        _refuse_foreign_pages(request)
        answer = _json({"role": None})
        answer.headers["Set-Cookie"] = f"{_cookie_name(request)}=; HttpOnly; SameSite=Strict; Max-Age=0"
        return answer

    async def _session(self, _: web.Request, who: Who) -> Any:
        return {"role": who.role, "name": who.name, "until_ms": who.until_ms}

    async def _live(self, request: web.Request, _: Who) -> Any:
        since = request.query.get("since", "0")
        if not (since.isascii() and since.isdecimal() and len(since) < 16):  # noqa: PLR2004 - digits of a safe integer
            raise Refused("malformed_request", "since is the number of a sample")
        return {**await self._watching.live(int(since)), "audit": self._audits.short()}

    async def _list(self, request: web.Request, _: Who) -> Any:
        name = request.match_info["name"]
        if name not in self._lists.names:
            raise Refused("not_found", f"there is no list {name!r}; there are {', '.join(self._lists.names)}")
        return await self._lists.read(name)

    async def _story(self, request: web.Request, _: Who) -> Any:
        async with asyncio.timeout(STORY_S), self._stories:
            return await story(self._access, request.match_info["id"])

    async def _effect(self, request: web.Request, _: Who) -> Any:
        found = await self._actions.preview(request.match_info["name"])
        return {**msgspec.to_builtins(found), "sentence": found.sentence()}

    async def _done(self, _: web.Request, __: Who) -> Any:
        return {"actions": msgspec.to_builtins(self._journal.latest(ACTIONS_SHOWN))}

    async def _act(self, request: web.Request, who: Who) -> Any:
        return msgspec.to_builtins(await self._actions.do(await _body(request, Action), who))

    async def _last_audit(self, _: web.Request, __: Who) -> Any:
        return self._audits.last()

    async def _audit(self, request: web.Request, _: Who) -> Any:
        await _body(request, dict[str, Any])
        return self._audits.begin()

    async def _metrics(self, request: web.Request) -> web.Response:
        self._federation.check(request.headers.get("Authorization"))
        text = await self._federation.text()
        return web.Response(text=text, content_type="text/plain", charset="utf-8")


@web.middleware
async def _answered(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer errors as problems, and put the headers on every answer."""
    try:
        answer = await handler(request)
    except HongbaoError as error:
        answer = _problem(error)
    except TimeoutError:
        answer = _problem(HongbaoError("slow_read", "this was not read in time; ask again"))
    except web.HTTPException as error:
        if error.status < 400:  # noqa: PLR2004 - a redirect is no error
            answer = error
        else:
            code = next((one for one, status in STATUS.items() if status == error.status), "malformed_request")
            answer = _problem(HongbaoError(code, f"{request.method} {request.path}: {error.reason}"))
    except Exception:  # noqa: BLE001 - one failed request ends no other; the log has it
        _log.exception("a request failed", path=request.path)
        answer = _problem(HongbaoError("internal_error", "this failed; the log of ops says why"))
    answer.headers.update(HEADERS)
    if request.path.startswith("/ops/api"):
        answer.headers["Cache-Control"] = "no-store"
    return answer


def _problem(error: HongbaoError) -> web.Response:
    status = status_of(error)
    headers = {"WWW-Authenticate": 'Bearer realm="hongbao ops"'} if status == 401 else {}  # noqa: PLR2004 - HTTP
    body = msgspec.json.encode(problem(error))
    return web.Response(status=status, body=body, content_type="application/problem+json", headers=headers)


async def _to_page(_: web.Request) -> web.StreamResponse:
    # Relative, so that it works behind a proxy that has put a prefix before our paths.
    raise web.HTTPFound("ops/")


async def _body(request: web.Request, kind: type[T]) -> T:
    if request.content_type != "application/json":
        # A form of another site can send text, and no JSON without being asked first.
        raise Refused("json_needed", "send application/json")
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except UNREADABLE as error:
        raise Refused("malformed_request", f"the body is not what is asked for here: {error}") from error


def _refuse_foreign_pages(request: web.Request) -> None:
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None and site not in _LOCAL:
        raise Refused("foreign_page", "a page of another site, or of another port, has sent this")


def _cookie_name(request: web.Request) -> str:
    """Two installations on one machine differ by their port alone, and cookies do not."""
    port = request.transport.get_extra_info("sockname")[1] if request.transport else 0
    return f"hongbao_ops_{port}"


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", charset="utf-8")
