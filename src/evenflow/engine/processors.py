"""What a stateful processor is to the engine: a user's code that is called key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from evenflow.model import EvenflowError
from evenflow.operators.state_variables import KeyState, Variable

NONE, PROCESSING_TIME, EVENT_TIME = "none", "processingtime", "eventtime"  #: what timers go by
UNKNOWN = -1  #: a time that is not known


class Times(NamedTuple):
    """What time it is in a batch, in milliseconds; -1 where it is not known."""

    processing: int = UNKNOWN
    watermark: int = UNKNOWN


class Calls(Protocol):
    """A processor at work in one task.

    What it puts out, it keeps until `output` is called.
    """

    def keys(self, columns: pa.Table) -> list[Any]:
        """Keys as the user's code gets them."""
        ...

    def rows(self, rows: pa.Table, bounds: Sequence[int], initial: bool) -> Callable[[int], Any]:
        """The rows of some keys as the user's code gets them, key by key.

        Parameters:
            rows: in the order of the keys.
            bounds: where the rows of each key begin, and where those of the last end.
            initial: whether they are initial states.
        """
        ...

    def initial(self, key: Any, state: KeyState, rows: Any) -> None:
        """Hand over the initial state of a key."""
        ...

    def input(self, key: Any, state: KeyState, rows: Any) -> None:
        """Hand over the rows of a key."""
        ...

    def expired(self, key: Any, state: KeyState, moment: int) -> None:
        """Hand over a timer of a key."""
        ...

    def output(self) -> Iterable[pa.Table]:
        """What was put out since the last call."""
        ...

    def close(self) -> None:
        """Say that nothing more comes."""
        ...


class WrongOutput(EvenflowError):
    """What a function returned does not fit its schema.

    Parameters:
        function: that returned it.
        key: for which key, as it was given to the function.
        error: what is wrong.
    """

    def __init__(self, function: str, key: Any, error: Exception) -> None:
        super().__init__(str(error))
        self.function, self.key, self.error = function, key, error


class Processor(Protocol):
    """A user's stateful code, picklable."""

    @property
    def name(self) -> str:
        """What a message calls it."""
        ...

    def variables(self) -> Sequence[Variable]:
        """Its state variables."""
        ...

    @property
    def deleted(self) -> Sequence[str]:
        """The state variables that it has given up."""
        ...

    def output_schema(self) -> pa.Schema:
        """The columns that it puts out."""
        ...

    def signature(self) -> Any:
        """What must stay the same for its state to be used."""
        ...

    def called(self, call: str) -> str:
        """What a message calls it where `initial`, `input`, `expired` or `close` fails."""
        ...

    def begin(self, times: Times) -> Calls:
        """Start it in a task, as if it had never run before."""
        ...
