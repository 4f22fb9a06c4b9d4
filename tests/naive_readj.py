"""The slow, obvious twin of Readj: every move and every swap is tried in every step."""


def loads_of(costs, worker, n):
    loads = [0.0] * n
    for cost, w in zip(costs, worker, strict=True):
        loads[w] += cost
    return loads


def sent_home(costs, worker, home, limits):
    """Keys that are away, smallest first: home if that overloads nobody; those of workers that leave
    in any case."""
    n = len(limits)
    worker = [h if w >= n else w for w, h in zip(worker, home, strict=True)]
    away = [k for k in range(len(costs)) if worker[k] != home[k]]
    for k in sorted(away, key=lambda k: costs[k]):
        loads = loads_of(costs, worker, n)
        if costs[k] == 0 or loads[home[k]] + costs[k] <= limits[home[k]]:
            worker[k] = home[k]
    return worker


def best_exchange(costs, worker, large, weights, limits):
    """(gain, key given, its new worker, key taken or None) of the exchange that most lowers the
    higher load of the two workers in it; on a tie the least loaded worker takes, and as little as
    possible. Workers above their limit give."""
    n = len(weights)
    loads = loads_of(costs, worker, n)
    best = (0.0, 0.0, 0.0), None, None, None
    for given in large:
        a = worker[given]
        if loads[a] <= limits[a]:
            continue
        partners = [(b, None) for b in range(n) if b != a]
        partners += [(worker[k], k) for k in large if worker[k] != a]
        for b, taken in partners:
            moved = costs[given] - (0 if taken is None else costs[taken])
            before = max(loads[a] / weights[a], loads[b] / weights[b])
            height = (loads[b] + moved) / weights[b]
            gain = before - max((loads[a] - moved) / weights[a], height)
            merit = (gain, -loads[b] / weights[b], -height)
            if gain > 0 and merit > best[0]:
                best = merit, given, b, taken
    return best[0][0], *best[1:]


def readj(costs, worker, home, weights, theta, sigma):
    """Workers of all keys, and the gain of every step."""
    n = len(weights)
    weights = [w * n / sum(weights) for w in weights]
    average = sum(costs) / n
    limits = [(1 + theta) * average * w * (1 + 1e-12) for w in weights]
    worker = sent_home(costs, worker, home, limits)
    large = [k for k in range(len(costs)) if costs[k] > 0 and costs[k] >= sigma * average]
    gains = []
    while True:
        gain, given, to, taken = best_exchange(costs, worker, large, weights, limits)
        if gain <= 1e-6 * average:
            return worker, gains
        gains.append(gain)
        if taken is not None:
            worker[taken] = worker[given]
        worker[given] = to
