"""The destination of a call: an envelope, and the link to its server as it was last found."""

from dataclasses import dataclass

from wire.link import Link


@dataclass(slots=True, eq=False)
class Target:
    """An envelope to be called. `link` holds as long as `generation` is that of the `Routing` that filled it in."""

    envelope_id: int
    link: Link | None = None
    generation: int = 0
