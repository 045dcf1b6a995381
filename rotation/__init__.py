"""Day tables on their way out: planned, proven, fenced, detached, exported, verified, and only then dropped.

A day leaves the hot database by proof, never by age. Each step is one row of `day_register` further on, guarded in
SQL, and may be killed and run again.
"""
