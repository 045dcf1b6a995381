"""How a total is cut into shares: exact to the fen, each at least 1 fen, reproducible from a seed.

`amounts` is the entry point; each way has a module of its own with its formula and source. All of them draw from one
stream of words (`envelope.split.stream`) and use integer arithmetic only, so that any language can recompute an
envelope from its seed after the close. The seed's `commitment` is published when the envelope is created.
"""

from envelope.split.ways import SPLIT_VERSION, Split, amounts, check_bounds, commitment

__all__ = ["SPLIT_VERSION", "Split", "amounts", "check_bounds", "commitment"]
