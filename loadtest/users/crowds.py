"""A class of people for each profile. Each has one step, `live`; locust repeats it at the pace of the phase."""

from collections.abc import Mapping
from typing import Final

from locust import task

from loadtest.users.person import Person
from loadtest.users.world import Message

CHATS_EACH: Final = 3
HURRIED: Final = ("midnight", "stampede")
LOOKS: Final = 0.3
"""Part of the openers that look at the envelope afterwards."""
LATE: Final = 2
"""Members of a small group beyond its shares, who come too late."""


class Reveler(Person):
    """New Year's Eve: is in three chats, sends now and then, and opens what the others send."""

    abstract = True

    def on_start(self) -> None:
        """Join chats (locust)."""
        super().on_start()
        chats = self.world.chats
        self.chats = self.luck.sample(chats, min(CHATS_EACH, len(chats)))

    @task
    def live(self) -> None:
        """Send, or look into a chat."""
        chat = self.luck.choice(self.chats)
        if not chat or self.luck.random() < self.world.phase.sends:
            sent = self.send(self.world.plan.shares)
            if sent is not None:
                chat.append(sent)
            return
        message = self._unopened(list(chat))
        # Who is in a hurry opens without a grab.
        if self.world.phase.name in HURRIED or self.grab(message) == "openable":
            self.open(message)
            if self.luck.random() < LOOKS:
                self.view(message)

    def _unopened(self, messages: list[Message]) -> Message:
        """Return the newest that this user has not opened, else any: people tap on old ones too."""
        for message in reversed(messages):
            if self.world.known.amount_fen(message.envelope_id, self.name) is None:
                return message
        return self.luck.choice(messages)


class Passerby(Person):
    """The mix 1 : 20 : 10 of open, grab and view, on the newest envelopes of one large chat."""

    abstract = True

    @task(1)
    def one_open(self) -> None:
        """Open the newest; a user who has opened it before, or finds it sold out, sends the next one."""
        message = self._newest()
        if message is None:
            return
        held = self.world.known.amount_fen(message.envelope_id, self.name) is not None
        if self.open(message) != "opened" and not (held and self.luck.random() < LOOKS):
            self._send()

    @task(20)
    def one_grab(self) -> None:
        """Ask about one of the newest."""
        message = self._newest()
        if message is not None:
            self.grab(message)

    @task(10)
    def one_view(self) -> None:
        """Look at one of the newest."""
        message = self._newest()
        if message is not None:
            self.view(message)

    def _newest(self) -> Message | None:
        chat = self.world.chats[0]
        return chat[-1] if chat else self._send()

    def _send(self) -> Message | None:
        sent = self.send(self.world.plan.shares)
        if sent is not None:
            self.world.chats[0].append(sent)
        return sent


class Guest(Person):
    """One hot envelope: every step is another person who grabs it, opens it, and may look at it."""

    abstract = True

    @task
    def live(self) -> None:
        """Be the next in the crowd."""
        hot = self.world.plan.hot
        if hot is None:
            return
        user = f"crowd-{self.world.number()}"
        self.grab(hot, user)
        self.open(hot, user)
        if self.luck.random() < LOOKS:
            self.view(hot, user)


class Neighbour(Person):
    """Small groups: every step is the next group, in which one sends and all others open, some too late."""

    abstract = True

    @task
    def live(self) -> None:
        """Play one envelope of the next group."""
        plan = self.world.plan
        group = self.world.number() % plan.groups
        message = self.send(plan.shares)
        if message is None:
            return
        members = [f"group-{group}-{number}" for number in range(plan.shares + LATE)]
        self.luck.shuffle(members)
        for member in members:
            if self.grab(message, member) == "openable":
                self.open(message, member)
        self.view(message, members[0])


CROWDS: Final[Mapping[str, type[Person]]] = {
    "nye": Reveler,
    "stampede": Reveler,
    "mix": Passerby,
    "hot": Guest,
    "groups": Neighbour,
}
