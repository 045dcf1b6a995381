"""What one locust process knows: the plan of the run, the group chats, who is who, and the tally it will write."""

import itertools
import os
import time
from collections import deque
from pathlib import Path
from typing import Final

import msgspec

from client import RetryBudget
from gateway.identity.tokens import make_token
from loadtest.profiles import PROFILES, Phase, Profile
from loadtest.tally import Second, Tally
from loadtest.users.known_answers import KnownAnswers
from runtime.clock import SystemClock

PLAN_VARIABLE: Final = "HONGBAO_LOADTEST_PLAN"
CHAT_LENGTH: Final = 8
"""Messages of a chat that people still look at."""
TOKENS_KEPT: Final = 20_000
TOKEN_GRACE_S: Final = 3_600.0


class Message(msgspec.Struct, frozen=True):
    """An envelope as it stands in a chat."""

    envelope_id: str
    share_id: str


class LoadPlan(msgspec.Struct, frozen=True):
    """One run as the command asks for it; a JSON file that every locust process reads.

    `senders` are users with money. `hot` is the one envelope of the profile of that name.
    """

    profile: str
    url: str
    folder: str
    users: int
    seconds: int
    workers: int
    groups: int
    shares: int
    senders: list[str]
    hot: Message | None = None


class World:
    """One process's view. `index` is its number among the workers, 0 when it is the only one."""

    def __init__(self, plan: LoadPlan, token_key: str) -> None:
        self.plan = plan
        self.profile: Profile = PROFILES[plan.profile]
        self.tally = Tally()
        self.known = KnownAnswers(self.tally)
        self.chats: list[deque[Message]] = [deque(maxlen=CHAT_LENGTH) for _ in range(min(plan.groups, plan.users))]
        self.index = 0
        self.retries = RetryBudget()
        """Of all people of this process: each of them alone makes too few requests for a part to be anything."""
        self._token_key = token_key
        self._tokens: dict[str, str] = {}
        self._numbers = itertools.count()
        self._senders = itertools.cycle(plan.senders)
        self._began = time.perf_counter()

    @classmethod
    def from_environment(cls) -> "World":
        """Read the plan that the command has written."""
        plan = msgspec.json.decode(Path(os.environ[PLAN_VARIABLE]).read_bytes(), type=LoadPlan)
        return cls(plan, os.environ["HONGBAO_TOKEN_KEY"])

    def begin(self, index: int) -> None:
        """Start the clock of the phases."""
        self.index = index
        self._began = time.perf_counter()

    @property
    def phase(self) -> Phase:
        """The phase of the profile now."""
        return self.profile.phase_at(time.perf_counter() - self._began, self.plan.seconds)

    def number(self) -> int:
        """Return a number that no other caller gets, in any worker."""
        return next(self._numbers) * max(self.plan.workers, 1) + self.index

    def sender(self) -> str:
        """Return the next user who has money."""
        return next(self._senders)

    def bearer(self, user: str) -> str:
        """Return the user's Authorization header."""
        if user not in self._tokens:
            if len(self._tokens) >= TOKENS_KEPT:
                self._tokens.clear()
            ttl_s = int(self.plan.seconds + TOKEN_GRACE_S)
            token = make_token(self._token_key, user, ttl_s=ttl_s, clock=SystemClock())
            self._tokens[user] = f"Bearer {token}"
        return self._tokens[user]

    def second(self, users: int, cpu: float) -> None:
        """Record the people of this second, and the part of a core that this process takes."""
        now = self.tally.seconds.setdefault(int(time.time()), Second())
        now.users, now.client_cpu = users, max(now.client_cpu, cpu)

    def write(self) -> None:
        """Write the tally into the plan's folder, where the command reads it."""
        self.tally.write(Path(self.plan.folder) / f"tally-{self.index}.json")
