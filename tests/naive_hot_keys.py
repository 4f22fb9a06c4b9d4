"""The slow, obvious twin of the hot-key policy: dictionaries, and one key after another."""

import math

import naive
import naive_best_fit


class HotKeys:
    """Follows the same calls as `evenflow.planning.hot_keys.HotKeys`, from its configuration."""

    def __init__(self, policy):
        self.policy = policy
        self.where, self.size = {}, {}
        self.rest = [0.0] * policy.partitions
        self.last_total = 0
        self.bar = policy.least if not policy.threshold and not policy.coverage else None
        self._begin_window()

    def _begin_window(self):
        epsilon = self.policy.epsilon or (self.policy.threshold / 10 or 1e-5)
        self.counter = naive.LossyCounting(math.ceil(1 / epsilon))
        self.total, self.arrived = 0, [0] * self.policy.partitions

    def choices(self, key):
        word = naive.owner_word(key, self.policy.seed)
        return [
            choice(word, self.policy.partitions) for choice in (naive.high_choice, naive.low_choice)
        ]

    def home(self, key):
        return self.choices(key)[0]

    def lower(self, key):
        return self.counter.bounds(key)[0]

    def upper(self, key):
        return self.counter.bounds(key)[1]

    def partition_size(self, p):
        return self.rest[p] + sum(self.size[k] for k in self.where if self.where[k] == p)

    def count(self, keys):
        for key in keys:
            self.counter.add(key)
            self.total += 1
            if self.policy.others:
                self.arrived[self.home(key)] += 1

    def _heaviest_first(self, bar):
        found = [k for k in self.counter.tracked() if self.upper(k) >= bar]
        return sorted(found, key=lambda k: (-self.upper(k), k))

    def _place(self, key, size):
        home, second = self.choices(key)
        away = self.partition_size(second) < self.partition_size(home)
        self.where[key], self.size[key] = (second if away else home), size
        return [(key, home, second, "HOT")] if away and second != home else []

    def detect(self):
        policy = self.policy
        bar = max(policy.least, math.ceil(policy.threshold * self.total))
        hot = self._heaviest_first(bar)
        if policy.coverage:
            for i in range(len(hot) - 1):
                if sum(self.lower(k) for k in hot[: i + 1]) >= policy.coverage * self.total:
                    hot, bar = hot[: i + 1], max(bar, self.upper(hot[i]))
                    break
        hot = hot[: policy.limit]
        moves = []
        for key in sorted(self.where):
            warm = policy.cooling < 1 and self.upper(key) >= max(1, policy.cooling * bar)
            if key not in hot and not warm:
                if self.where[key] != self.home(key):
                    moves.append((key, self.where[key], self.home(key), "COOLED"))
                del self.where[key], self.size[key]
        for key in self.where:
            self.size[key] = self.lower(key)
        new = [k for k in hot if k not in self.where][: policy.limit - len(self.where)]
        if policy.others:
            self.rest = [float(n) for n in self.arrived]
            for key in [*self.where, *new]:
                self.rest[self.home(key)] -= self.lower(key)
            self.rest = [max(n, 0.0) for n in self.rest]
        for key in new:
            moves += self._place(key, self.lower(key))
        self.bar, self.last_total = bar, self.total
        self._begin_window()
        return moves

    def detect_early(self):
        if self.bar is None or not self.total:
            return []
        new = [k for k in self._heaviest_first(self.bar) if k not in self.where]
        moves = []
        for key in new[: max(0, self.policy.limit - len(self.where))]:
            whole = max(1.0, self.last_total / self.total)
            moves += self._place(key, round(self.lower(key) * whole))
        return moves

    def decide(self):
        """Only without `others`: the twin of best fit does not know of them."""
        keys = sorted(self.where)
        worker, _ = naive_best_fit.best_fit(
            [self.size[k] for k in keys],
            [self.policy.state_seconds] * len(keys),
            [self.where[k] for k in keys],
            [self.home(k) for k in keys],
            [1.0] * self.policy.partitions,
            self.policy.theta,
            0.0,
            self.policy.window_seconds,
            1.0 if self.policy.message_seconds is not None else math.inf,
            self.policy.message_seconds,
        )
        moves = []
        for key, target in sorted(
            zip(keys, worker, strict=True), key=lambda kt: (self.size[kt[0]], kt[0])
        ):
            if self.where[key] != target:
                moves.append((key, self.where[key], target, "FIT"))
                self.where[key] = target
        return moves
