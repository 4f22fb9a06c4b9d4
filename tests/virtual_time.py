"""What tests of virtual time share: capacities by hand, and the same queues in SimPy."""

from types import SimpleNamespace

import numpy as np
import simpy

import naive
from evenflow.simulator.cluster import CapacityPlan


def plan_of(eras):
    """[(until, service times), …] as `Queues` wants it."""
    return SimpleNamespace(
        capacities=np.array([[1 / s for s in service] for _, service in eras]),
        until=np.array([until for until, _ in eras]),
    )


def eras_of(cluster, curve):
    plan = CapacityPlan(cluster, curve)
    return list(zip(plan.until.tolist(), (1 / plan.capacities).tolist(), strict=True))


def in_simpy(workers, arrivals, eras, samples):
    """(start, finish) of each message and the queue lengths at each sample, event by event."""
    environment = simpy.Environment()
    n = len(eras[0][1])
    machines = [simpy.Resource(environment, capacity=1) for _ in range(n)]
    there, spans, lengths = [0] * n, [None] * len(workers), []

    def message(i):
        worker = workers[i]
        there[worker] += 1
        with machines[worker].request() as turn:
            yield turn
            start = environment.now
            yield environment.timeout(naive.era_at(eras, start)[worker])
        there[worker] -= 1
        spans[i] = (start, environment.now)

    def source():
        for i, arrival in enumerate(arrivals):
            yield environment.timeout(arrival - environment.now)
            environment.process(message(i))

    def observer():
        for sample in samples:
            yield environment.timeout(sample - environment.now)
            lengths.append(list(there))

    environment.process(source())
    environment.process(observer())
    environment.run()
    return spans, lengths
