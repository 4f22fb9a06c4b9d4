"""The slow, obvious twin of `evenflow_lab.simulators.replanning`: dictionaries, one key at a time."""

import numpy as np

from evenflow.planning.protocol import Statistics


def counts_of(stream, intervals):
    """How often each key comes, a dictionary an interval."""
    random = np.random.default_rng(stream.seed)
    found = []
    for keys, _ in zip(stream.intervals(), range(intervals), strict=False):
        drawn = random.multinomial(stream.interval, stream.probabilities())
        found.append(dict(zip(keys.tolist(), drawn.tolist(), strict=True)))
    return found


def replan_slowly(planner, stream, constraints, window, intervals):
    """(planned, migrated, table_size, before, expected, skewness) of every interval."""
    counts = counts_of(stream, intervals + 1)
    names = list(counts[0])
    home = dict(zip(names, stream.tasks_of(np.array(names, np.uint64)).tolist(), strict=True))
    owner, intervals_found = dict(home), []

    def skewness(of, cost):
        loads = [0] * constraints.workers
        for key in names:
            loads[of[key]] += cost[key]
        return max(loads) / (sum(loads) / len(loads))

    for i in range(1, intervals + 1):
        cost = counts[i - 1]
        state = {key: sum(one[key] for one in counts[max(i - window, 0) : i]) for key in names}
        before = skewness(owner, cost)
        planned = before > 1 + constraints.theta
        new = owner
        if planned:
            seen = Statistics.of(
                [cost[key] for key in names],
                [owner[key] for key in names],
                [home[key] for key in names],
                [state[key] for key in names],
                names,
            )
            new = dict(zip(names, planner.plan(seen, constraints).worker.tolist(), strict=True))
        moved = sum(state[key] for key in names if new[key] != owner[key])
        intervals_found.append(
            (
                planned,
                moved / sum(state.values()),
                sum(new[key] != home[key] for key in names),
                before,
                skewness(new, cost),
                skewness(new, counts[i]),
            )
        )
        owner = new
    return intervals_found
