"""The protocol of streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

CALLED = "called"


def called(name: str) -> Mapping[str, str]:
    """Metadata of a workload's field that a declaration calls by another name."""
    return {CALLED: name}


@runtime_checkable
class Workload(Protocol):
    """A stream of key fingerprints that can be read repeatedly from its beginning.

    Guarantee of every workload: the same keys in the same order each time, for every chunk size.
    The whole stream is never in memory.

    A frozen dataclass with a `name`, in a file of this folder or registered under the entry
    point `evenflow.simulator.workloads`, can be declared by name in the laboratory's experiments.
    """

    def chunks(self, size: int) -> Iterator[U64]:
        """The stream in pieces of at most `size` keys, none of them empty."""
        ...

    def length(self) -> int | None:
        """The number of messages, if known beforehand."""
        ...

    def describe(self) -> dict[str, Any]:
        """A description for reports: plain values under the names of the command line.

        `name` is the workload's; `stand_in` is whether it replaces data that is not available.
        """
        ...
