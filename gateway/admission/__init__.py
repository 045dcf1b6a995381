"""Step 1b of a request: whether it begins (docs/overload.md).

A gateway that is asked for more than it can do must choose: if it begins everything, everything is late, and people
leave before their answer comes. So requests stand in one line (`line`) until they begin. Who comes when it is full is
refused; while that happens a threshold (`threshold`) refuses those who come last in the order of `priority`, so that
the line is short and seldom full. `levels` refuses calls for one server, or creates, while that server or the wallet
says that a crowd waits there. `bare` reads just enough of raw bytes to refuse them unparsed. `admission` wires these.

A refusal is 503 `busy` with Retry-After, and nothing was done (`gateway.refusals`, `test_admission.py`). The line never
refuses cancels, health and metrics for others' sake. May be used by the gateway alone; holds no state but counts,
places in line and promises, all of which may be lost at any time.
"""
