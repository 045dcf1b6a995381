"""How an envelope is shown: the JSON objects of create and detail and its card in a list, written once in the setnode.

`envelope_json` makes the first two, `card_json` the card, `live_json` what watchers are sent, `claims_json` keeps the
list of claims of a large envelope encoded, `timestamps` writes instants. Everything of an object but share token and
share ID is written here; the gateway adds those, and a card to the wallet's row, without parsing the rest
(docs/decisions/0020).

May import: `setnode.limits`, `envelope`, `sharding`, `runtime.clock`. Promise: only committed entries are shown, and
the seed only once nothing can change any more (tests/unit/setnode/test_claims_json.py,
tests/integration/setnode/test_life.py). Fails by nothing of its own: who may see an envelope is decided before
(`setnode.actors.access`).
"""
