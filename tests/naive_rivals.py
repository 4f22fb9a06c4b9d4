"""Slow, obvious twins of FISH, Dalton and the key isolator."""

import math

import naive


class Fish:
    """`ring` is a list of (place, worker number)."""

    def __init__(self, ids, salt, shares, ring, settings):
        self.ids, self.salt, self.ring, self.settings = ids, salt, sorted(ring), settings
        self.theta = 1 / (4 * len(ids)) if settings.theta is None else settings.theta
        self.keys, self.counts, self.most = [], [], []  # one entry per counter
        self.total, self.in_epoch, self.since_inference = 0.0, 0, 0
        self.cost = [1 / (share * len(ids)) for share in shares]  # P_w
        self.waiting = [0.0] * len(ids)

    def count(self, key):
        """Count one message; the counter of its key."""
        if self.in_epoch == self.settings.epoch:
            self.counts = [c * self.settings.alpha for c in self.counts]
            self.total *= self.settings.alpha
            self.in_epoch = 0
        if key in self.keys:
            slot = self.keys.index(key)
        elif len(self.keys) < self.settings.counters:
            slot = len(self.keys)
            self.keys, self.counts = [*self.keys, key], [*self.counts, 0.0]
            self.most = [*self.most, 0]
        else:
            slot = self.counts.index(min(self.counts))
            self.keys[slot], self.most[slot] = key, 0
        self.counts[slot] += 1.0
        self.total += 1.0
        self.in_epoch += 1
        return slot

    def degree(self, slot):
        """How many workers the key of this counter may have: CHK."""
        n, count = len(self.ids), self.counts[slot]
        if count / max(self.total, self.settings.epoch) < self.theta:
            return min(2, n)
        halvings = 0
        while max(self.counts) >= count * 2 ** (halvings + 1):
            halvings += 1
        d = max(n // 2**halvings, min(2, n), self.most[slot])
        self.most[slot] = d
        return d

    def clockwise(self, key, d):
        """The first d different workers at or after the key's place."""
        where = naive.mix(key ^ self.salt)
        after = [worker for place, worker in self.ring if place >= where]
        before = [worker for place, worker in self.ring if place < where]
        return list(dict.fromkeys(after + before))[:d]

    def route(self, key):
        d = self.degree(self.count(key))
        if self.since_inference == self.settings.interval:
            elapsed = self.settings.interval / (len(self.ids) * self.settings.utilisation)
            self.waiting = [max(time - elapsed, 0.0) for time in self.waiting]
            self.since_inference = 0
        self.since_inference += 1
        worker = min(self.clockwise(key, d), key=lambda w: self.waiting[w])
        self.waiting[worker] += self.cost[worker]
        return self.ids[worker]


class Dalton:
    """What happens in slide s is in `sent[s]`: a list of (key, worker, was hot)."""

    def __init__(self, ids, salt, luck, settings):
        self.ids, self.salt, self.luck, self.settings = ids, salt, luck, settings
        self.slide = settings.slide_of(len(ids))
        self.sent = [[]]
        self.threshold = math.inf
        self.found = set()  # the keys found hot in this slide
        self.q, self.until = {}, {}  # key → values; key → the last slide in which it is hot
        self.used = {}  # key → worker → the last slide with a message, since the key is hot
        self.max_split, self.at_most, self.draws = 2, set(), 0

    def hash(self, key):
        return naive.high_choice(naive.mix(key ^ self.salt), len(self.ids))

    def is_hot(self, key):
        if len(self.sent[-1]) == self.slide:
            self.threshold = self.slide // len(self.ids)
            self.sent.append([])
            self.found = set()
            for gone in [k for k in self.q if self.until[k] < len(self.sent) - 1]:
                del self.q[gone], self.until[gone], self.used[gone]
                self.at_most.discard(gone)
        count = sum(k == key for k, _ in self.sent[-1]) + 1
        if key not in self.found and count > self.threshold:
            self.found.add(key)
            self.until[key] = len(self.sent)  # this slide is number len − 1
            if key not in self.q:
                self.q[key] = [-2.0] * len(self.ids)
                self.used[key] = {self.hash(key): len(self.sent) - 1}
        return key in self.q

    def window(self):
        return self.sent[-self.settings.slides - 1 :]

    def fragments(self, key):
        oldest = len(self.sent) - 1 - self.settings.slides
        return sorted(w for w, slide in self.used[key].items() if slide >= oldest)

    def choose(self, key):
        word = naive.mix(self.luck ^ self.draws)
        self.draws += 1
        if (word >> 32) < round((1 - self.settings.epsilon) * 2**32):
            best = self.hash(key)
            for worker, value in enumerate(self.q[key]):
                if value > self.q[key][best]:
                    best = worker
            return best
        some = self.fragments(key) if key in self.at_most else []
        some = some or range(len(self.ids))
        return some[naive.low_choice(word, len(some))]

    def learn(self, key, worker):
        self.used[key][worker] = len(self.sent) - 1
        n, split = len(self.ids), len(self.fragments(key))
        if split == self.max_split:
            self.at_most.add(key)
        if len(self.at_most) >= 0.7 * len(self.q) and self.max_split < 6:
            self.at_most = set()
            self.max_split += 1
        workers = [w for slide in self.window() for _, w in slide]
        average, load = len(workers) / n, workers.count(worker)
        reward = -(0.5 * (load - average) / max(load, average) + 0.5 * split / n)
        a = self.settings.learning_rate
        self.q[key][worker] = self.q[key][worker] * (1 - a) + a * reward

    def route(self, key):
        hot = self.is_hot(key)
        worker = self.choose(key) if hot else self.hash(key)
        self.sent[-1].append((key, worker))
        if hot:
            self.learn(key, worker)
        return self.ids[worker]


def isolate(hot, total, n, heavy_per_worker, slack, limit, owner):
    """KIPUpdate: the heavy keys' workers, and each worker's share of all other keys.

    `hot` is key → count; `owner(key, explicit)` is the key's worker number so far: by the table
    (if `explicit`, where the key is in it) or by hash.
    """
    most = min(round(heavy_per_worker * n), limit)
    heavy = sorted(hot.items(), key=lambda pair: (-pair[1], pair[0]))[:most]
    share = {key: count / total for key, count in heavy}
    allowed = max([1 / n, *share.values()]) + slack
    size, table, movers = [0.0] * n, {}, []

    def place(key, worker):
        table[key] = worker
        size[worker] += share[key]

    for key in share:
        now = owner(key, True)
        if size[now] + share[key] <= allowed or size[now] == 0:
            place(key, now)
        else:
            movers.append(key)
    for key in movers:
        home = owner(key, False)
        fits = size[home] + share[key] < allowed or size[home] == 0
        if fits and home != owner(key, True):
            place(key, home)
        else:
            place(key, size.index(min(size)))
    rest = 1 - sum(share.values())
    filled = [(sum(sorted(size)[:some]) + rest) / some for some in range(1, n + 1)]
    level = [f for f, s in zip(filled, sorted(size), strict=True) if f >= s][-1]
    room = [max(level - s, 0.0) for s in size]
    return table, [r / sum(room) if sum(room) else 1 / n for r in room]
