"""How the rate of a stream changes over a day."""

from __future__ import annotations

from typing import Final

HOURLY: Final[tuple[float, ...]] = (
    *(0.90, 0.84, 0.78, 0.74, 0.71, 0.70, 0.72, 0.77),
    *(0.85, 0.94, 1.02, 1.09, 1.14, 1.18, 1.20, 1.21),
    *(1.22, 1.23, 1.24, 1.23, 1.19, 1.13, 1.04, 0.93),
)
"""The rate of each hour of a day, relative to the day's mean.

A stand-in for Figure 5 of "Consistent Grouping" (messages an hour of WP and TW), whose numbers are
lost: a quiet night and a busy evening, as the traffic of a web site has them. The busiest hour has
1.24 of the mean, so that a cluster which is busy for 80 % on average is never overloaded as a whole.
"""
