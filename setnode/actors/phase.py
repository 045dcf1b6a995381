"""The phases of an actor."""

from enum import IntEnum


class Phase(IntEnum):
    """Where an actor is in its life; the diagram stands in `setnode.actors.actor`."""

    LOADING = 0
    IDLE = 1
    READY = 2
    WRITING = 3
    FROZEN = 4
