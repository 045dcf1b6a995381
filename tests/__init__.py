"""What proves it: each folder asks more of the machine than the one before.

`unit` needs no servers, `integration` has one part at a time on real ones, `faults` whole stacks that are killed and
starved, `simulation` a year. TRAPS.md names, for every way others lost money, the test that catches it.
"""
