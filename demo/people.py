"""The people of the demo: users of one gateway by name, with the latencies and results of all their opens."""

from collections import Counter
from collections.abc import Callable
from typing import Self

from client import ApiError, Attempt, Envelope, Hongbao, Result, User
from errors import Unavailable


class People:
    """`token` returns a user's bearer token. `results` counts opens by result, `latencies_ms` has each attempt.

    Use it as `async with`: what the gateway refuses inside ends it with Unavailable `demo_failed`.
    """

    def __init__(self, url: str, token: Callable[[str], str]) -> None:
        self._hongbao = Hongbao(url, on_attempt=self._note)
        self._token = token
        self._users: dict[str, User] = {}
        self.results: Counter[str] = Counter()
        self.latencies_ms: list[float] = []

    async def __aenter__(self) -> Self:
        await self._hongbao.__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._hongbao.__aexit__()
        if isinstance(error, ApiError):
            raise Unavailable("demo_failed", f"the gateway refused: {error}") from error

    def __getitem__(self, name: str) -> User:
        """Return a user."""
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = self._hongbao.user(lambda: self._token(name))
        return user

    async def open(self, name: str, envelope: Envelope | str, password: str | None = None) -> Result:
        """Let a user open, and count what it came to."""
        result = await self[name].open(envelope, password=password)
        self.results[result.result] += 1
        return result

    def _note(self, attempt: Attempt) -> None:
        if attempt.path.endswith("/open"):
            self.latencies_ms.append(1000 * attempt.seconds)
            if attempt.code:
                self.results[attempt.code] += 1
