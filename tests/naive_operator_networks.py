"""Slow, obvious twins of the simulator of operator networks: event by event in lists, and in SimPy."""

import numpy as np
import simpy

from evenflow.kernels.mixing import salt
from evenflow.simulator.workloads.drawing import random_word, unit

ROLE = 301


def emitted(network, seed, operator, number):
    """How many tuples the operator's tuple of that number leaves."""
    draw = unit(np.uint64(random_word(salt(seed, ROLE, int(operator)), number)))
    return int(network.selectivity[operator] + draw)


def by_hand(network, where, speeds, arrivals, moves, until, seed=0):
    """(latency, service) of each tuple that leaves before `until`, in order.

    `arrivals`: (time, stream) by time. `moves`: (time, operator, node, time when it resumes).
    """
    where, queues = list(where), [[] for _ in speeds]
    serving = [None] * len(speeds)  # (done, tuple), a tuple is (operator, birth, service)
    held = {}
    served = [0] * len(network)
    left = []

    def begin(node, now):
        serving[node] = None
        if queues[node]:
            operator, birth, service = queues[node].pop(0)
            took = network.cost[operator] / speeds[node]
            serving[node] = (now + took, (operator, birth, service + took))

    def join(one, now):
        if one[0] in held:
            held[one[0]].append(one)
            return
        node = where[one[0]]
        queues[node].append(one)
        if serving[node] is None:
            begin(node, now)

    events = [(time, 1, ("arrive", stream)) for time, stream in arrivals]
    for time, operator, node, back in moves:
        events.append((time, 0, ("leave", operator, node)))
        events.append((back, 0, ("come", operator)))
    events.sort(key=lambda event: event[:2])
    while True:
        busy = [(serving[node][0], node) for node in range(len(speeds)) if serving[node]]
        done = min(busy, default=(float("inf"), -1))
        event = events[0] if events else (float("inf"), 1, None)
        now = min(done[0], event[0])
        if now >= until:
            return left
        if event[0] < done[0] or (event[0] == done[0] and event[1] == 0):
            _, _, what = events.pop(0)
            if what[0] == "arrive":
                join((network.inputs[what[1]], now, 0.0), now)
            elif what[0] == "leave":
                old = where[what[1]]
                held[what[1]] = [one for one in queues[old] if one[0] == what[1]]
                queues[old] = [one for one in queues[old] if one[0] != what[1]]
                where[what[1]] = what[2]
            else:
                for one in held.pop(what[1]):
                    join(one, now)
            continue
        node = done[1]
        operator, birth, service = serving[node][1]
        for _ in range(emitted(network, seed, operator, served[operator])):
            for target in network.targets[operator]:
                join((target, birth, service), now)
            if not network.targets[operator]:
                left.append((now - birth, service))
        served[operator] += 1
        begin(node, now)


def in_simpy(network, where, speeds, arrivals, until, seed=0):
    """The latencies of the tuples that leave before `until`; nothing moves."""
    environment = simpy.Environment()
    machines = [simpy.Resource(environment, capacity=1) for _ in speeds]
    served, left = [0] * len(network), []

    def tuple_at(operator, birth):
        with machines[where[operator]].request() as turn:
            yield turn
            yield environment.timeout(network.cost[operator] / speeds[where[operator]])
            amount = emitted(network, seed, operator, served[operator])
            served[operator] += 1
        for _ in range(amount):
            for target in network.targets[operator]:
                environment.process(tuple_at(target, birth))
            if not network.targets[operator]:
                left.append(environment.now - birth)

    def source():
        for time, stream in arrivals:
            yield environment.timeout(time - environment.now)
            environment.process(tuple_at(network.inputs[stream], time))

    environment.process(source())
    environment.run(until)
    return left
