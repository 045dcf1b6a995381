"""Every bound of this room, with its reason; relations are checked at import."""

from errors import check_limit
from moving.limits import RELOAD_S

EVERY_S = 1.0
"""Between two looks at all parts: what is killed shows within three seconds, and a look costs milliseconds."""
ASK_S = 0.9
"""For a part to answer; one that takes longer is shown as away for this second."""
WATCHED_S = 5.0
"""After the last question of a page its reader counts as gone."""
KEPT = 600
"""Samples: ten minutes, at most 2 KB each."""
EVENTS = 200
"""Of what happened to parts, kept and shown."""
FRESH_S = 2.0
"""A list that was read so recently is answered from memory, to however many pages ask."""
READ_S = 10.0
"""For a list that is read from databases or servers."""
STORY_S = 20.0
"""For the story of one envelope; one from the archive may be verified first."""
STORIES = 4
"""Told at once, each over connections of its own; more wait, so that no page uses up what a database has."""
CLAIMS_SHOWN = 2_000
"""Claims and payouts in a story, the first ones; sums are of all."""
FOLLOW_S = 5.0
"""For the servers to go by a changed topology, before the operator hears that some do not yet."""
SESSION_S = 12 * 3600
"""A shift. After that the key is asked for again."""
BODY_BYTES = 16_384
ACTIONS_SHOWN = 100
JOURNAL_KEPT = 500
"""Actions in the journal's file after it has been cut."""
JOURNAL_BYTES = 1_000_000
ACTION_ID = r"^[0-9A-Za-z_-]{8,64}$"
NAME_CHARS = 40
METRICS_BYTES = 4_000_000
"""Of one part's metrics: they are some 50 KB."""
HOT_SHOWN = 20

check_limit(ASK_S < EVERY_S, "a look must end before the next one begins")
check_limit(WATCHED_S > 2 * EVERY_S, "a page that asks once a second must not count as gone between two questions")
check_limit(FOLLOW_S <= RELOAD_S, "an operator must not wait longer at the page than at a command")
