"""How long each kind is kept: settings of the command `retention`, however it is called (cron, systemd)."""

from typing import Annotated

import msgspec

from backup.limits import KEEP_COPIES

Days = Annotated[int, msgspec.Meta(ge=0, le=36_500)]


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Read from HONGBAO_*; see `runtime.settings`. Of days 0 means for ever."""

    retention_backups: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = KEEP_COPIES
    """Base copies of each server that are kept, the newest; with each all log that it needs for every instant since."""
    retention_actions_days: Days = 400
    """Days for which full journals of what operators did at the page, and of what this command removed, are kept."""
    retention_log_days: Days = 30
    """Days after its last line for which the log of a part that does not run any more is kept. Logs of parts that run
    are bounded by their size, 32 MB each."""
    retention_dead_letter_days: Days = 90
    """Days for which an event that was given up can be sent again."""
