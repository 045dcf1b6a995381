"""How the system grows: with envelopes alive, with rows in the day tables, with SETs.

One module a question: `alive`, `tables`, `more_sets`; each says its workload. `section` puts them together.
"""

from loadtest.bench.growth.section import SECTION

__all__ = ["SECTION"]
