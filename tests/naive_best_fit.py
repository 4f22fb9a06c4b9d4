"""The slow, obvious twin of SMALOPS' best fit."""


def best_fit(costs, state, worker, home, weights, theta, hot, interval, bandwidth, t_msg):
    """Workers of all keys, and every move as (key, from, to, distance before, distance after)."""
    n = len(weights)
    worker = [h if w >= n else w for w, h in zip(worker, home, strict=True)]
    heavy = [k for k in range(len(costs)) if costs[k] > 0 and costs[k] >= hot * sum(costs)]
    whole = sum(costs[k] for k in heavy)
    average = [whole * w / sum(weights) for w in weights]

    def size(p):
        return sum(costs[k] for k in heavy if worker[k] == p)

    def beyond(p):
        return size(p) - average[p]

    moves, moved_state = [], 0.0
    sources = [p for p in range(n) if size(p) > (1 + theta) * average[p]]
    for p in sorted(sources, key=lambda p: -size(p) / average[p]):
        own = [k for k in heavy if worker[k] == p and not any(m[0] == k for m in moves)]
        for k in sorted(own, key=lambda k: costs[k]):
            if size(p) <= (1 + theta) * average[p]:
                break
            targets = []
            for t in range(n):
                before = abs(beyond(p) - beyond(t))
                after = abs((beyond(p) - costs[k]) - (beyond(t) + costs[k]))
                if size(t) < average[t] and after < before:  # Figure 2
                    targets.append((abs(costs[k] + size(t) - average[t]), t, before, after))
            if not targets:
                continue
            _, t, before, after = min(targets)  # equation 3
            if t_msg is None:
                if moved_state + state[k] > interval * bandwidth:
                    continue
            else:  # equation 4, with rates
                rate_k, rate_p, rate_t = costs[k] / interval, size(p) / interval, size(t) / interval
                here = t_msg * (1 + (1 - rate_k / rate_p))
                there = t_msg * (1 + (1 - 1 / rate_t)) if rate_t else float("-inf")
                if not here > state[k] / bandwidth + there:
                    continue
            moved_state += state[k]
            moves.append((k, p, t, before, after))
            worker[k] = t
    return worker, moves
