"""Every bound of this room in one place, with its reason; relations are checked at import."""

from typing import Final

from envelope.errors import InvariantBroken
from envelope.limits import LIMITS
from wire.link import DEADLINE_S, MAX_IN_FLIGHT

BODY_BYTES: Final = LIMITS.body_bytes
"""The largest body that is read; more is refused by its Content-Length, or once this much has come."""
HEADERS: Final = 64
"""Header lines of a request; a browser behind two proxies sends 30. More, or longer ones, are `malformed_http`."""
HEADER_BYTES: Final = 4_096
"""Of one header line. The longest that means anything to us is a bearer token; the parser keeps the last request's."""
BODY_S: Final = 10.0
"""A body of 64 KB takes this long on the worst phone; a client that drips bytes is told 408."""
KEEP_ALIVE_S: Final = 75.0
"""An idle connection is kept this long, longer than any proxy of ours keeps its end: the client's side closes first."""
TAKE_S: Final = 75.0
"""Most of an answer must be taken in this time. The longest, 1 MB, takes a phone on a bad line a minute."""
LINGER_S: Final = 1.0
"""How long what is left of a refused body is read and dropped, so that the client sees the refusal and not a reset."""
REQUESTS: Final = 20_000
"""Requests in flight in this process, about 10 KB each, as people send them; above it 503 `busy` before anything is
read."""
TOKEN_CHARS: Final = 2_048
"""A longer bearer token is not looked at. Ours have about 150 characters."""
TOKEN_CACHE: Final = 32_768
"""Verified tokens of one generation, about 500 bytes each; two generations are kept."""
REJECTIONS_PER_S: Final = 100
"""Rejected tokens that one address may cost us in a second unless HONGBAO_REJECTED_TOKENS_PER_S says otherwise: 4 ms
of CPU. Generous, because behind a proxy all clients have one address and honest ones come with expired tokens."""
REJECTING_ADDRESSES: Final = 8_192
"""Addresses whose rejections are remembered, about 150 bytes each."""
SHARE_CACHE: Final = 16_384
"""Share tokens computed lately, about 250 bytes each."""
ID_CACHE: Final = 65_536
"""Envelope IDs that were read and found possible, about 200 bytes each; all forgotten when there are more."""
PATH_CACHE: Final = 65_536
"""Paths whose resource is remembered, about 300 bytes each; all forgotten when there are more."""
PATH_CHARS: Final = 40
"""A longer path is not remembered: no envelope has one."""
ROUTE_CACHE: Final = 65_536
"""Envelopes, and slots, whose server is remembered, about 150 bytes each; all forgotten whenever a server comes or
goes."""
STEADY_S: Final = 1.0
"""A server that was lost must stay connected this long before it gets its envelopes back: one that flaps would
move every actor to and fro, and each move reads the log again."""
WATCH_S: Final = 0.05
"""How often links are looked at; a call that finds its link down does not wait for it."""
TOPOLOGY_S: Final = 1.0
"""How often the topology file is read again."""
HOLD_S: Final = 2.0
"""How long a request waits while its database changes its SET; then it is refused as `busy`."""
HELD: Final = 10_000
"""Requests that wait so; above it they are refused at once."""
HOLD_LOOK_S: Final = 0.02
"""How often the topology file is read while any wait: 0.1 ms of work."""
DRAIN_S: Final = DEADLINE_S + 1.0
"""A link whose server left the topology is kept this long for the answers still to come."""
PAST_OPENS_S: Final = 600
"""`opens_at` may be this long ago and then means now: a create repeated after its start must give its first answer."""
FUTURE_SLACK_S: Final = 60
"""Clocks of gateways differ by less; an ID of tomorrow is taken this long before midnight."""
PAGE: Final = 100
"""The longest page of a list; the wallet gives no longer ones."""
DEFAULT_PAGE: Final = 20
CURSOR_CHARS: Final = 64
"""Ours have about 30."""
CANDIDATE_IDS: Final = 4
"""IDs proposed for a create. With 100 a second in one slot the first is another's with a chance of 1 in 1,000, all four
with one of 10^-12; who finds none free may try again."""
SAMPLE_EVERY: Final = 16
"""One request of this many is timed for the histogram: reading clocks and filling buckets costs 2 µs."""
COUNTS_S: Final = 1.0
"""How often counts are handed to Prometheus; a dict costs 0.1 µs per request, a labelled counter 2 µs."""

REQUESTS_PER_TURN: Final = 24
"""Requests begun in one turn of the loop, about 1 ms of work: enough for a frame, few enough that SETs begin early."""

if REQUESTS > MAX_IN_FLIGHT:
    raise InvariantBroken("limits", "a link must hold every request that the gateway may have in flight")
if HOLD_S >= DEADLINE_S:
    raise InvariantBroken("limits", "a request that is held must be refused before its caller gives up")
if TOKEN_CHARS + len("Authorization: Bearer ") > HEADER_BYTES:
    raise InvariantBroken("limits", "a token of full length must fit its header")
if DRAIN_S <= DEADLINE_S:
    raise InvariantBroken("limits", "a link must outlive the calls on it")
if DEFAULT_PAGE > PAGE:
    raise InvariantBroken("limits", "the default page must be a legal one")
