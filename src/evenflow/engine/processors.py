"""What a stateful processor is to the engine: a user's code that is called key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from evenflow.model import EvenflowError, InputError
from evenflow.operators.state_variables import KeyState, Variable

if TYPE_CHECKING:
    from evenflow.engine.batch import Batch

NONE, PROCESSING_TIME, EVENT_TIME = "none", "processingtime", "eventtime"  #: what timers go by
UNKNOWN = -1  #: a time that is not known


class Times(NamedTuple):
    """What time it is in a batch, in milliseconds; -1 where it is not known."""

    processing: int = UNKNOWN
    watermark: int = UNKNOWN


def milliseconds(moment: int | None) -> int:
    """A watermark as Spark has it: in milliseconds, and 0 before anything has been seen."""
    return 0 if moment is None else max(moment // 1000, 0)


def due_moments(time_mode: str, batch: Batch) -> tuple[int, int]:
    """The moments in milliseconds between which keys are due in a batch, both included."""
    if time_mode == EVENT_TIME:
        late, closed = batch.watermarks.late, batch.watermarks.closed
        return milliseconds(late), milliseconds(closed)
    moment = UNKNOWN if batch.moment is None else batch.moment
    before = moment if batch.moment_before is None else batch.moment_before
    return min(before, moment), moment


def require_moment(who: str, time_mode: str, batch: Batch) -> None:
    """Refuse a source that does not say when its batches began, if that is what counts."""
    if time_mode == PROCESSING_TIME and batch.moment is None:
        raise InputError(
            f"{who} goes by processing time, and the source of batch {batch.number} does not say when "
            "it began"
        )


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
