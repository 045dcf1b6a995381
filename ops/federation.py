"""All processes' metrics as one exposition, for a Prometheus that knows one address: each sample has its `part`."""

import asyncio
import hmac

from errors import Refused
from installation.access import Access
from installation.data_folder import DataFolder
from ops.exposition import join
from ops.parts import keep_up, parts_of
from ops.scrape import Scraper

_UP = (
    "# HELP hongbao_part_up 1 if the part answered when this was asked",
    "# TYPE hongbao_part_up gauge",
)


class Federation:
    """Asks the parts whenever it is asked, and keeps nothing."""

    def __init__(self, access: Access, folder: DataFolder, key: str) -> None:
        self._access = access
        self._folder = folder
        self._key = key
        # However many ask, the parts are asked by one at a time.
        self._one = asyncio.Lock()

    def check(self, authorization: str | None) -> None:
        """Raise Refused `key_missing` or `key_wrong` unless this is the METRICS_KEY."""
        if authorization is None:
            raise Refused(
                "key_missing", "metrics are for operators: send Authorization: Bearer and HONGBAO_METRICS_KEY"
            )
        given = authorization.encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, f"Bearer {self._key}".encode()):
            raise Refused("key_wrong", "this is not the METRICS_KEY")

    async def text(self) -> str:
        """Return the exposition of all parts that answer, and `hongbao_part_up` of all."""
        async with self._one:
            await keep_up(self._access, self._folder)
            parts, scraper = await parts_of(self._access, self._folder), Scraper(self._access)
            try:
                looks = await scraper.look(parts)
            finally:
                await scraper.rest()
        up = [f'hongbao_part_up{{part="{name}"}} {int(look.up)}' for name, look in looks.items()]
        lines = join((name, look.text) for name, look in looks.items() if look.text)
        return "\n".join([*_UP, *up, *lines, ""])
