"""Order under fire.

A plain process writes a million messages of ten thousand keys to a real broker and moves keys at
random every few milliseconds; now and then it writes the last records of a partition again. Real
consumer processes read them, are killed with SIGKILL and started again, leave and join, or are frozen
for so long that the group goes on without them. Then a checker that knows nothing of evenflow looks for
messages lost, processed twice or out of order. `--no-buffering` shows that it sees a consumer that does
not wait; `--broker-kills` kills the broker, too.
"""

from __future__ import annotations

from typing import Annotated

from evenflow_lab.benchmarks.ordering.settings import Run
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing


def run(
    messages: Annotated[int, "Messages."] = Run.messages,
    keys: Annotated[int, "Keys."] = Run.keys,
    partitions: Annotated[int, "Partitions of the topic."] = Run.partitions,
    consumers: Annotated[int, "Consumer processes."] = Run.consumers,
    rate: Annotated[float, "Messages per second."] = Run.rate,
    buffer: Annotated[int, "Messages that a consumer may hold back."] = Run.buffer,
    faults_every: Annotated[float, "Seconds between faults; 0: none."] = Run.seconds_between_faults,
    seed: Annotated[int, "Of keys, moves and faults."] = 0,
    broker_kills: Annotated[int, "Kills of the broker."] = 0,
    no_buffering: Annotated[bool, "Consumers that do not wait: the checker must see it."] = False,
    progress: Progress = say_nothing,
) -> Result:
    from evenflow_lab.benchmarks.ordering.trial import run_trial
    from evenflow_lab.checking.broker import Broker

    settings = Run(
        messages=messages,
        keys=keys,
        partitions=partitions,
        consumers=consumers,
        rate=rate,
        buffer=buffer,
        seconds_between_faults=faults_every,
        seed=seed,
        broker_kills=broker_kills,
        buffering=not no_buffering,
    )
    with Broker.start() as broker:
        figures = run_trial(settings, broker, lambda line: progress(line, 0, None))
    rows = [{"": name, "value": value} for name, value in figures.items()]
    return Result(figures, (Table(rows),), passed=figures["any_anomaly"] != settings.buffering)
