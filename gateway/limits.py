"""Every bound of this room, with its reason; the relations between them are checked at import."""

from typing import Final

from envelope.limits import LIMITS
from errors import check_limit
from wire.limits import DEADLINE_S, MAX_IN_FLIGHT

# HTTP: what one connection may send and keep

BODY_BYTES: Final = LIMITS.body_bytes
"""The longest body that is read. A longer one is refused by its Content-Length, or once this much has come."""
BODY_S: Final = 10.0
"""A body of 64 KB takes this long on the worst phone; a client that sends more slowly receives 408."""
MAX_NAMES: Final = 256
"""Names of fields in a body, and what looks like one in a text. A create has a dozen fields, and its greeting and
password have room for fewer than 100 of `"":`."""
HEADERS: Final = 64
"""Header lines of a request; a browser behind two proxies sends 30. More, or longer ones, are `malformed_http`."""
HEADER_BYTES: Final = 4_096
"""Of one header line. The longest that the gateway uses is a bearer token; each connection keeps its last headers in
memory."""
KEEP_ALIVE_S: Final = 75.0
"""An idle connection is kept this long: longer than a usual proxy keeps its end, so that the client closes first."""
CONNECTION_AGE_S: Final = 300.0
"""A connection that is older, or half as old, as chance has it, ends with an answer: its client comes again, maybe at
another gateway, such as one that was started later."""
TAKE_S: Final = 75.0
"""A client must read most of an answer in this time. The longest, a page of CLAIMS_PAGE_MOST, takes 85 kB / 75 s: any
line that can make a call."""
SMALL_ANSWER: Final = 4_096
"""Up to this much of an answer may wait for a client uncounted: an open's has 300 bytes, and is not worth a count.
It belongs to what a connection costs (CONNECTIONS)."""
UNSENT_BYTES: Final = 64 * 1024 * 1024
"""Of longer answers that wait for clients to read them, in all connections: 750 of the longest pages, while the kernel
takes a page of most clients whole. Above it connections are ended (`gateway.unsent`)."""
KERNEL_UNSENT_BYTES: Final = 128 * 1024
"""What the kernel takes of one connection beyond what is on its way: a whole page, so that most clients never count
above. Its own bound, 4 MB each (net.ipv4.tcp_wmem), would let some thousands of clients use up its memory for TCP."""
UNSENT_ROOM: Final = 16
"""One part of this many is freed then, so that the search for the network that holds most is seldom needed."""
SMALL_BODY: Final = 16_384
"""A body up to this length is refused unread as soon as it is whole: it has not paused the parser."""
LINGER_S: Final = 1.0
"""The rest of a refused body is read and dropped for this long, so that the client sees the refusal and not a reset."""

HEAD_S: Final = 10.0
"""The first head of a connection, or one that has begun, must be whole after this long; then the connection ends."""
CONNECTIONS: Final = 16_384
"""Clients connected, unless HONGBAO_CONNECTIONS says otherwise: 5 KB, SMALL_ANSWER at worst and a file each. Above it
the idlest are ended."""
CONNECTIONS_PER_ADDRESS: Final = 4_096
"""The same from one address, unless HONGBAO_CONNECTIONS_PER_ADDRESS says otherwise; a company's or a carrier's network
has one address for thousands of phones. Proxies that are trusted have no bound of their own."""
ACCEPTS_PER_TURN: Final = 32
"""Connections accepted in one turn of the loop, 15 µs each with their end."""
ACCEPTS_PER_S: Final = 10_000
"""The same for each second that a turn takes, if that is more: 0.15 of a core."""
NEWCOMERS_AT_ONCE: Final = 1_024
"""New connections of which one turn of the loop reads what they have sent: as many as libuv asks the kernel for."""
READ_BYTES: Final = 16_384
"""Read at once from a connection that is new; the rest is read by its parser."""
DRAIN_S: Final = 5.0
"""At a stop a gateway serves on for this long, unless HONGBAO_DRAIN_S says otherwise, and ends each connection with its
next answer: a client that uses its connection finds another gateway before this one goes, and a balancer that asks
`/readyz` every second or two leaves it out."""
DRAIN_SPREAD: Final = 0.8
"""Over this part of that time the connections that are there end, so that clients do not come back all at once."""
DRAIN_LOOK_S: Final = 0.05
"""How often it looks whether anybody is left."""
NEWCOMERS_S: Final = 0.3
"""Then it accepts nobody any more, and waits so long for the first request of those who have just connected."""
NO_FILES_S: Final = 1.0
"""Pause before the next accept when the process or the machine has no file left."""
MAKE_ROOM: Final = 64
"""At a bound one connection of this many is ended: the search for the idlest, 2 ms among CONNECTIONS, is then needed
once for 256 new ones."""
SPARE_FILES: Final = 128
"""Files that are kept for links, logs and the topology when clients hold all others."""
SWEEP_S: Final = 1.0
"""How often connections are looked through for late heads."""
SWEEP_AT_ONCE: Final = 1_000
"""Connections looked at in one turn of the loop, 0.3 ms."""

# Requests: how many at a time

REQUESTS: Final = 20_000
"""Requests in flight in this process, about 10 KB each. One more is refused with 503 `busy` before it is looked at."""
REQUESTS_PER_TURN: Final = 24
"""Requests begun in one turn of the loop: enough for a frame, few enough that SETs begin early
(docs/decisions/0013-a-few-requests-a-turn.md)."""

# Admission: who begins, and who is refused (docs/overload.md)

WINDOW_S: Final = 0.05
"""The threshold is adjusted this often: some hundred requests, and twenty times before a client gives up."""
LINE_S: Final = 0.02
"""While anybody is refused as many requests may stand in line as begin in this time."""
LINE_LEAST: Final = 256
"""So many at least."""
BURST: Final = 640
"""While nobody is refused so many may stand in line: a chat group of 500 that taps at once is served. With room for
2,000 people waited half a second until they heard `busy` when a crowd came that did not end (decision 36)."""
LATE_S: Final = 0.4
"""A request that has stood in line for this long is refused: the gateway, or the machine, stood still."""
OLD_S: Final = 0.01
"""A request that has stood in line for less than this is begun without reading how long its client waits: every client
waits longer (TIMEOUTS_S)."""
CLIENT_WAITS_S: Final = 2.0
"""How long a client waits for an answer, unless it says so or HONGBAO_CLIENT_WAITS_S does: people tap again then."""
TIMEOUTS_S: Final = (0.02, 60.0)
"""The shortest and longest wait that a client may name; a shorter one would end in any pause of the machine."""
LATE_A_TURN: Final = 200
"""Refused in one turn because they have waited: about 2 ms."""
WAIT_S: Final = 0.1
"""If requests wait longer than this at a server or the wallet, more come than it can serve. A batch that is being
written makes the next one wait for 20 ms or more, and nobody is behind for that."""
SHRINK: Final = 0.95
SHRINK_MOST: Final = 0.8
GROW: Final = 1.01
CATCH_UP: Final = 1.25
SAFE: Final = 0.9
"""What the threshold makes of the requests admitted in a window, and up to where it catches up (DAGOR, SoCC 2018, takes
5 % away and adds 1 %)."""
GOOD_WINDOWS: Final = 10
"""After so many windows without a fall, half a second, more can be done than before."""
CALM_WINDOWS: Final = 40
"""After so many windows in which everybody was admitted, two seconds, nobody is counted any more."""
PROMISES: Final = 65_536
PROMISE_S: Final = 30.0
"""Users who were told `openable`, about 300 bytes each, and how long their opens go first: until they have tapped."""
PLACES: Final = 64
"""Places of users within a class: the threshold moves in steps of 1.6 %."""
HOUR_S: Final = 3_600.0
"""Places change this often."""
RETRY_S: Final = (1, 2, 3)
"""Retry-After of a refusal: these in turn."""
BEGIN_PER_S: Final = 6_000
PER_TURN_MOST: Final = 120
"""In a turn that took long more requests begin than REQUESTS_PER_TURN, so many for each second that it took: long turns
are those in which much was read, and what was read must go on."""

# Identity

JWKS_BYTES: Final = 65_536
JWKS_KEYS: Final = 20
"""Of a JWKS file: a few apps, each with the key of before and the next one."""
JWKS_LOOK_S: Final = 1.0
"""How often the file is looked at: a key that is taken out is out everywhere a second later."""
RSA_BITS: Final = 2_048
"""Of a key for RS256 (RFC 7518, 3.3)."""
TOKEN_CHARS: Final = 2_048
"""A longer bearer token is refused without verifying it. Ours have about 150 characters."""
TOKEN_CACHE: Final = 65_536
"""Verified tokens that are remembered, about 500 bytes each."""
PLACED_BYTES: Final = 1_024
"""Of a header `Authorization` of which it is remembered, unverified, whom it names. Anybody can send them, so this
bounds what TOKEN_CACHE of them take: 90 MB. Of a longer one its digest is."""
PLAY_USERS: Final = 100
"""Names in HONGBAO_PLAY_USERS. They are for one group chat."""
PLAY_TOKEN_S: Final = 12 * 3600
"""How long a token of a user to play with is valid: a day of work."""
AUTH_FAILURES_PER_S: Final = 100
"""Tokens from one address that may be rejected in a second, unless HONGBAO_REJECTED_TOKENS_PER_S says otherwise.
Generous, because behind a proxy all clients have one address, and some of them send expired tokens in good faith
(docs/decisions/0009-what-the-door-refuses.md)."""
MOST_AUTH_FAILURES_PER_S: Final = 1_000_000
"""The largest legal setting: more than any gateway can verify, so a larger one is a mistake."""
AUTH_FAILURE_ADDRESSES: Final = 8_192
"""Addresses whose rejected tokens are counted, about 150 bytes each."""
RATE_USERS: Final = 262_144
RATE_ADDRESSES: Final = 65_536
RATE_OPENS: Final = 262_144
"""Buckets kept for users, addresses, and pairs of user and envelope, for each limit that is set: 200 bytes each."""
MOST_RATE: Final = 1_000_000
LONGEST_RATE_S: Final = 86_400.0
"""The largest legal rate: more at once, or a longer time, is a mistake."""
SHARE_CACHE: Final = 16_384
"""Share tokens that are remembered, about 250 bytes each."""

# Paths, IDs and terms

PATH_CACHE: Final = 65_536
"""Paths whose resource is remembered, about 500 bytes each with envelope ID and link."""
PATH_CHARS: Final = 56
"""A longer path is not remembered: no envelope has one, by its ID or share ID."""
PAST_OPENS_S: Final = LIMITS.max_lives_s
"""`opens_at` may be this long ago and then means now. An app that repeats a create, for example after a crash, must
hear what came of it as long as the envelope lives: if it were refused, the app would think that nothing was done."""
FUTURE_SLACK_S: Final = 60
"""An ID of tomorrow is accepted this long before midnight: clocks of gateways differ by less."""
CANDIDATE_IDS: Final = 4
"""IDs proposed for a create. Each has one of 10^5 tails: with 100 creates a second in one slot the first is taken with
a chance of 10^-3, all four with one of 10^-12; then the client must try again."""
PAGE: Final = 100
"""The longest page of a list, and of the wallet (`wallet.limits.MAX_PAGE`)."""
DEFAULT_PAGE: Final = 20
"""The page of a client that names no limit: one screen."""
CLAIMS_PAGE: Final = 100
"""Claims in a detail unless the client says otherwise: what a person looks at, about 8 KB."""
CLAIMS_PAGE_MOST: Final = 1_000
"""The longest page of claims, about 85 KB; a setnode refuses a longer one (`setnode.limits.MAX_CLAIMS_PAGE`)."""
ORIGINS: Final = 100
"""Origins of HONGBAO_CORS_ORIGINS: an installation has its own pages, not those of everybody."""
PREFLIGHT_S: Final = 600
"""How long a browser may remember what it was told: a change of the setting is known everywhere after that."""
ETAGS: Final = 4
"""Of an If-None-Match so many are compared, the first ones (`setnode.limits.KNOWN_VERSIONS`); a client has one."""
CARDS_S: Final = 2.0
"""How long a list waits for the envelopes of its rows; those that have not come are `unavailable` then. More than a
setnode waits (`setnode.limits.CARDS_S`), which replies with what it has."""
CURSOR_CHARS: Final = 64
"""Ours have about 30."""

# SETs: finding a server, and waiting while a database moves

WATCH_S: Final = 0.05
"""How often the state of all links is checked. A call that finds its link down excludes the server at once."""
STEADY_S: Final = 1.0
"""A server that was lost must stay connected this long before it gets its envelopes back: each time they change
servers, their logs are read again."""
ALL_SETS_S: Final = 5.0
"""A gateway that starts waits this long for a server of every SET before it is ready with those that are there. Links
to servers that run open within milliseconds, those of a whole stack that starts at once within a few seconds."""
TOPOLOGY_S: Final = 1.0
"""How often the topology file is read, and a newer one asked for."""
LINK_DRAIN_S: Final = DEADLINE_S + 1.0
"""A link whose server left the topology is kept this long for the answers still to come."""
HOLD_S: Final = 2.0
"""How long a request is held (waits) while its database changes its SET; then it is refused as `busy`."""
AWAY_S: Final = 2.0
"""A part that has gone is waited for as long, unless HONGBAO_AWAY_S says otherwise: one that restarts is back in a
second or two."""
MOST_AWAY_S: Final = 30.0
"""The longest legal setting; no client waits longer."""
HELD: Final = 10_000
"""Requests held at a time; one more is refused as `busy` at once."""
HOLD_LOOK_S: Final = 0.02
"""How often the topology file is read while any request is held."""
HOLD_PAUSE_S: Final = 0.5
"""The longest pause between two attempts of a request that is held. The first is HOLD_LOOK_S, each next one twice as
long."""

# Live streams

LIVE_STREAMS: Final = 10_000
"""Clients that watch envelopes, 4 KB each with their part of the kernel's memory not counted."""
LIVE_STREAMS_OF_USER: Final = 8
"""Of one user: a phone, a computer, and pages that were not closed. One stream serves all envelopes of a page."""
LIVE_ENVELOPES: Final = 50
"""Envelopes on one stream: more than a page shows."""
LIVE_TURN_S: Final = 0.002
"""Between two turns of writing to streams everything else is served."""
LIVE_SHARE: Final = 0.3
"""Of a gateway's time for streams, while others need less of it than this: 5,000 streams have an event in 0.2 s."""
LIVE_SHARE_BUSY: Final = 0.02
"""The same of a busy gateway: watchers of a crowd hear every second or two, and opens lose little."""
LIVE_WINDOW_S: Final = 0.1
"""How often it is looked whether a gateway is busy."""
LIVE_WRITE_S: Final = 1e-5
"""What a write is taken to cost until it has been measured, and WRITES_KEPT turns make its mean."""
WRITES_KEPT: Final = 16
LIVE_UNSENT_BYTES: Final = 16 * 1024
"""A client that has not read so much misses events; the last one of each envelope comes once it reads again."""
LIVE_BEAT_S: Final = 15.0
"""How often a quiet stream has a comment: proxies end what says nothing for a minute."""
LIVE_AGE_S: Final = 600.0
"""A stream ends after half of it to all of it, so that streams spread over gateways that came later."""
LIVE_RETRY_MS: Final = 1_000
"""A client connects again after this long; one whose gateway goes away after one to five times as long."""
LIVE_LOOK_S: Final = 0.25
"""How often watched envelopes are compared with who serves them."""
LIVE_ASKS_AT_ONCE: Final = 200
"""Envelopes that are asked for at once, where their server is another one now."""
LIVE_SWEEP_S: Final = 1.0
"""How often streams are looked at for beats, and for their end."""
LIVE_LOOKS_AT_ONCE: Final = 500
"""Streams looked at in one turn of the loop, 0.2 ms."""

# The documentation site

HANDBOOK_FILES: Final = 2_000
"""Files below `/docs/`: a page each for some hundred texts, and their pictures. A folder with more is not served."""
HANDBOOK_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all of them together, in memory once each has been asked for; the site has about 5 MB."""

# Metrics

SAMPLE_EVERY: Final = 16
"""In a crowd one request of this many is timed for the histograms: timing every one would cost a noticeable part of an
open."""
TIMED_PER_S: Final = 500
"""With fewer requests in a second every one is timed: a millisecond of each second at most, to put the times into
their histograms."""
FAILURES_PER_S: Final = 20
"""Answers of more than 500 that are logged in a second: a line costs about 50 µs, and in a crowd thousands are refused.
How many were left out is in the next line, all of them are in `hongbao_http_requests_total`."""
PATH_SHOWN: Final = 200
"""Characters of a path in the access log; ours have 60 at most."""
COUNTS_S: Final = 1.0
"""How often counts are handed to Prometheus; its labelled counters are too slow for one increment per request."""

check_limit(REQUESTS <= MAX_IN_FLIGHT, "a link must hold every request that the gateway may have in flight")
check_limit(HEAD_S < KEEP_ALIVE_S, "a head must be late before its connection is idle")
check_limit(CONNECTIONS_PER_ADDRESS <= CONNECTIONS, "one address must not hold more than all")
check_limit(HELD <= REQUESTS, "requests that wait for a move are in flight")
check_limit(HOLD_S < DEADLINE_S, "a request that is held must be refused before its caller gives up")
check_limit(HOLD_LOOK_S < HOLD_S, "a request that is held must see a newer topology before it is refused")
check_limit(TOKEN_CHARS + len("Authorization: Bearer ") <= HEADER_BYTES, "a token of full length must fit its header")
check_limit(AUTH_FAILURES_PER_S <= MOST_AUTH_FAILURES_PER_S, "the default must be a legal setting")
check_limit(CARDS_S < DEADLINE_S, "a list must be answered before a link gives its calls up")
check_limit(LINK_DRAIN_S > DEADLINE_S, "a link must outlive the calls on it")
check_limit(KERNEL_UNSENT_BYTES < UNSENT_BYTES // UNSENT_ROOM, "a page must be a small part of what waits")
check_limit(DEFAULT_PAGE <= PAGE, "the default page must be a legal one")
check_limit(LINE_LEAST < BURST < REQUESTS, "a calm line must have more room than one that overflows, and less than all")
check_limit(TIMEOUTS_S[0] > OLD_S, "what is begun without a look must be younger than any client's patience")
check_limit(LATE_S < CLIENT_WAITS_S, "a request that is refused because it waited must have a client that waits")
check_limit(LINE_S < LATE_S, "an ordinary wait must not be a late one")
check_limit(LIVE_STREAMS <= CONNECTIONS, "streams are connections")
check_limit(LIVE_UNSENT_BYTES < KERNEL_UNSENT_BYTES, "a stream must pause before the kernel is full")
