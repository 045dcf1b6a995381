"""The fence of a database that leaves this SET, as a write meets it (schema: `moved_away`)."""

from envelope.errors import Unavailable

MOVED_AWAY = "HB002"


def moved_database(error: BaseException) -> int | None:
    """Return the database xx whose fence refused a write, and with it its whole transaction; None for other errors."""
    if getattr(error, "sqlstate", None) != MOVED_AWAY:
        return None
    return int(getattr(error, "detail", None) or -1)


def wrong_set() -> Unavailable:
    """Return what is told to those whose write was refused: nothing of it was written."""
    return Unavailable("wrong_set", "this envelope has left for another SET; look at the topology again")
