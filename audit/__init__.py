"""The audit (floor 5): read-only proofs of what must always be true (DESIGN section 6), while traffic runs.

The wallet and the SETs share no transaction, so the cut is made consistent by order: money enters an escrow before
its envelope exists, and leaves it after its claim is committed. `proof` therefore reads the wallet (before), then each
SET in one snapshot, then the wallet again (after) for what was in flight: what the first reading shows paid must be
claimed in the SET; what the SET shows claimed and no longer waiting must be paid in the last.

May import: `archive`, `wire`, `schema`, `sharding`, `envelope`, `runtime`. Promise: never writes, never cries wolf over
money in flight, and names the envelope, the order or the account where something does not add up.
"""
