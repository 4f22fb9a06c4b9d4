"""Schemes and sketches that are wrong on purpose; the conformance suite must reject each of them.

Every class says in `caught_by` which check must catch it, and in `also_by` which others see the
same fault. No other check may fail: a check that fails for a reason that is not its own misleads
whoever reads the report. `ANY` stands for all others.
"""

ANY = frozenset({"any"})
