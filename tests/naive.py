"""The slow, obvious twin of every kernel: plain Python, written to be read, not to be run fast."""

import itertools
import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

# --- hashing --------------------------------------------------------------------------------------

_WORD = 2**64 - 1
_HALF_WORD = 2**32 - 1


def _rotate_left(word, by, bits):
    return (word << by | word >> (bits - by)) & (2**bits - 1)


def xxh64(data, seed=0):
    """XXH64 of a bytes object, after the specification."""
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def round_(lane, word):
        return _rotate_left((lane + word * p2) & _WORD, 31, 64) * p1 & _WORD

    rest = data
    if len(data) >= 32:
        lanes = [seed + p1 + p2, seed + p2, seed, seed - p1]
        while len(rest) >= 32:
            for i in range(4):
                lanes[i] = round_(lanes[i], int.from_bytes(rest[8 * i : 8 * i + 8], "little"))
            rest = rest[32:]
        digest = sum(
            _rotate_left(lane, by, 64) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)
        )
        for lane in lanes:
            digest = ((digest & _WORD) ^ round_(0, lane)) * p1 + p4
    else:
        digest = seed + p5
    digest = (digest + len(data)) & _WORD
    while len(rest) >= 8:
        digest ^= round_(0, int.from_bytes(rest[:8], "little"))
        digest = (_rotate_left(digest, 27, 64) * p1 + p4) & _WORD
        rest = rest[8:]
    if len(rest) >= 4:
        digest ^= int.from_bytes(rest[:4], "little") * p1 & _WORD
        digest = (_rotate_left(digest, 23, 64) * p2 + p3) & _WORD
        rest = rest[4:]
    for byte in rest:
        digest = _rotate_left(digest ^ (byte * p5 & _WORD), 11, 64) * p1 & _WORD
    digest = (digest ^ digest >> 33) * p2 & _WORD
    digest = (digest ^ digest >> 29) * p3 & _WORD
    return digest ^ digest >> 32


def _chained(words, seed=0):
    for word in words:
        seed = xxh64((word & _WORD).to_bytes(8, "little"), seed)
    return seed


def fingerprint(value):
    """The fingerprint of one Python value. A struct is a tuple; a Fraction is an instant, a time or
    a duration in seconds, for what Python's own types are too coarse to say."""
    match value:
        case None:
            return 0xB7E151628AED2A6A
        case bytes():
            return xxh64(value)
        case str():
            return xxh64(value.encode())
        case bool() | int():
            return _chained([value], seed=int(value >= 2**63))
        case float():
            value = math.nan if math.isnan(value) else 0.0 if value == 0 else value
            return xxh64(struct.pack("<d", value))
        case Decimal():
            negative, digits, exponent = value.as_tuple()
            magnitude, scale = int("".join(map(str, digits))), -exponent
            if magnitude == 0:
                negative = scale = 0
            while magnitude and magnitude % 10 == 0:
                magnitude, scale = magnitude // 10, scale - 1
            words = [magnitude & _WORD]
            while magnitude := magnitude >> 64:
                words.append(magnitude & _WORD)
            return _chained(words, seed=(2 * scale + negative) & _WORD)
        case datetime():
            utc = value.replace(tzinfo=value.tzinfo or UTC)
            return fingerprint(utc - datetime(1970, 1, 1, tzinfo=UTC))
        case date():
            return fingerprint((value - date(1970, 1, 1)).days)
        case time():
            return fingerprint(datetime.combine(date(1970, 1, 1), value))
        case timedelta():
            return fingerprint(Fraction(value // timedelta(microseconds=1), 10**6))
        case Fraction():
            seconds = math.floor(value)
            return _chained([seconds, int((value - seconds) * 10**9)])
        case tuple():
            return _chained(fingerprint(field) for field in value)
    raise TypeError(value)


def mix(word):
    for _ in range(2):
        word ^= word >> 32
        word = word * 0xD6E8FEB86659FD93 & _WORD
    return word ^ word >> 32


def high_choice(mixed, n):
    """Which of n equal parts of 0 … 2³² the upper half falls into."""
    return math.floor(Fraction(mixed // 2**32, 2**32) * n)


def low_choice(mixed, n):
    return math.floor(Fraction(mixed % 2**32, 2**32) * n)


def owner_word(key, seed):
    """Spark's `xxhash64(lit(seed), key)`, of two longs."""
    return _chained([seed, key], seed=42)


def owner(key, n, seed):
    return high_choice(owner_word(key, seed), n)


def later_mix(mixed, pair):
    return mix((mixed + pair * 0x9E3779B97F4A7C15) & _WORD)


def choice(mixed, i, n):
    word = mixed if i < 2 else later_mix(mixed, i // 2)
    return low_choice(word, n) if i % 2 else high_choice(word, n)


# --- tables and selection -------------------------------------------------------------------------


def least_of_set(loads, members, cursor):
    """The first worker at or after the cursor, cyclically, with the least load in the set."""
    in_order = [*range(cursor, len(loads)), *range(cursor)]
    return min((worker for worker in in_order if worker in members), key=lambda w: loads[w])


def levels(loads):
    """Load → workers that have at most that, for the 64 loads from the least one up."""
    least = min(loads)
    return {
        level: {worker for worker, load in enumerate(loads) if load <= level}
        for level in range(least, least + 64)
    }


def take_less_loaded(loads, a, b):
    """Add one to the less loaded of `a` and `b` (`a` on a tie) and return it."""
    chosen = b if loads[b] < loads[a] else a
    loads[chosen] += 1
    return chosen


def table_contents(table_keys, table_slots):
    """Key → slot of everything in a hash table, wherever it lies."""
    return {
        int(key): int(slot) for key, slot in zip(table_keys, table_slots, strict=True) if slot != -1
    }


# --- sketches -------------------------------------------------------------------------------------


class TrueCounts:
    """What every sketch approximates: real-valued counts, halved by `age`; the exact counter."""

    def __init__(self):
        self.counts = {}

    def add(self, key):
        self.counts[key] = self.counts.get(key, Fraction(0)) + 1

    def age(self):
        self.counts = {key: count / 2 for key, count in self.counts.items()}

    def of(self, key):
        return self.counts.get(key, Fraction(0))

    def total(self):
        return sum(self.counts.values(), Fraction(0))

    def bounds(self, key):
        return math.floor(self.of(key)), math.ceil(self.of(key))

    @classmethod
    def merged(cls, parts):
        union = cls()
        for part in parts:
            for key, count in part.counts.items():
                union.counts[key] = union.of(key) + count
        return union


class SpaceSaving:
    """A list of [key, count, error, born], searched from the front for everything."""

    def __init__(self, capacity, half_life=None):
        self.capacity, self.half_life = capacity, half_life
        self.slots = []
        self.seen = self.seen_when_aged = 0

    def add(self, key):
        if self.half_life is not None and self.seen - self.seen_when_aged == self.half_life:
            self.age()
            self.seen_when_aged = self.seen
        for slot in self.slots:
            if slot[0] == key:
                slot[1] += 1
                break
        else:
            if len(self.slots) < self.capacity:
                self.slots.append([key, 1, 0, self.seen])
            else:
                smallest = min(self.slots, key=lambda slot: slot[1])
                smallest[:] = [key, smallest[1] + 1, smallest[1], self.seen]
        self.seen += 1

    def age(self):
        for slot in self.slots:
            lower, upper = slot[1] - slot[2], slot[1]
            slot[1] = math.ceil(upper / 2)
            slot[2] = slot[1] - math.floor(lower / 2)

    def bounds(self, key):
        for slot in self.slots:
            if slot[0] == key:
                return slot[1] - slot[2], slot[1]
        full = len(self.slots) == self.capacity
        return 0, min(slot[1] for slot in self.slots) if full else 0

    def tracked(self):
        return {key: born for key, _, _, born in self.slots}

    def merged(self, parts):
        union = SpaceSaving(self.capacity)
        bounds = {}
        for key in {key for part in parts for key in part.tracked()}:
            lowers, uppers = zip(*(part.bounds(key) for part in parts), strict=True)
            bounds[key] = sum(lowers), sum(uppers)
        most_frequent_first = sorted(bounds, key=lambda key: (-bounds[key][1], key))
        for key in most_frequent_first[: self.capacity]:
            lower, upper = bounds[key]
            union.slots.append([key, upper, upper - lower, -1])
        union.seen = sum(part.seen for part in parts)
        return union


class LossyCounting:
    """A dict of key → [f, Δ, born], all of it looked through at the end of every window."""

    def __init__(self, width):
        self.width = width
        self.entries = {}
        self.seen = self.finished_windows = self.in_this_window = 0

    def add(self, key):
        if key not in self.entries:
            self.entries[key] = [0, self.finished_windows, self.seen]
        self.entries[key][0] += 1
        self.seen += 1
        self.in_this_window += 1
        if self.in_this_window == self.width:
            self.in_this_window = 0
            self.finished_windows += 1
            self.drop_rare()

    def drop_rare(self):
        self.entries = {
            key: [f, slack, born]
            for key, (f, slack, born) in self.entries.items()
            if f + slack > self.finished_windows
        }

    def age(self):
        for entry in self.entries.values():
            lower, upper = entry[0], entry[0] + entry[1]
            entry[0] = math.floor(lower / 2)
            entry[1] = math.ceil(upper / 2) - entry[0]
        self.finished_windows = math.ceil(self.finished_windows / 2)
        self.in_this_window = math.floor(self.in_this_window / 2)
        self.drop_rare()

    def bounds(self, key):
        if key not in self.entries:
            return 0, self.finished_windows
        f, slack, _ = self.entries[key]
        return f, f + slack

    def tracked(self):
        return {key: born for key, (_, _, born) in self.entries.items()}

    def merged(self, parts):
        union = LossyCounting(self.width)
        for key in {key for part in parts for key in part.entries}:
            lowers, uppers = zip(*(part.bounds(key) for part in parts), strict=True)
            union.entries[key] = [sum(lowers), sum(uppers) - sum(lowers), -1]
        unfinished = sum(part.in_this_window for part in parts)
        union.finished_windows = sum(part.finished_windows for part in parts)
        union.finished_windows += unfinished // self.width
        union.in_this_window = unfinished % self.width
        union.seen = sum(part.seen for part in parts)
        union.drop_rare()
        return union


# --- grouping -------------------------------------------------------------------------------------

# Every scheme is a class whose `route` takes the key of one message and returns a worker's id.


@cache
def hashed(key, salt, i, n):
    """F_{i+1}(key), as a worker number."""
    return choice(mix(key ^ salt), i, n)


def sort_descending(values):
    return sorted(values, reverse=True)


class KeyGrouping:
    def __init__(self, ids, seed):
        self.ids, self.seed = ids, seed

    def route(self, key):
        return self.ids[owner(key, len(self.ids), self.seed)]


class ShuffleGrouping:
    def __init__(self, ids, first):
        self.ids, self.turn = ids, first

    def route(self, key):
        worker = self.ids[self.turn]
        self.turn = (self.turn + 1) % len(self.ids)
        return worker


class GreedyD:
    """The least loaded of F₁ … F_d; d = 2 is partial key grouping."""

    def __init__(self, ids, salt, d=2):
        self.ids, self.salt, self.d = ids, salt, d
        self.loads = [0] * len(ids)

    def route(self, key):
        choices = [hashed(key, self.salt, i, len(self.ids)) for i in range(self.d)]
        return self.send_to(min(choices, key=lambda w: self.loads[w]))

    def send_to(self, worker):
        self.loads[worker] += 1
        return self.ids[worker]


class TwoChoices(GreedyD):
    """Partial key grouping of the messages' numbers."""

    def route(self, key):
        return super().route(sum(self.loads))


class Head:
    """Which messages are hot: a share of θ in a sketch that halves its counts every memory."""

    def __init__(self, n, theta=None, sightings=20.0, counters=4, literal=False):
        """The paper's head, `literal`, never forgets and is there from the first message on."""
        self.theta = 1 / (5 * n) if theta is None else theta
        self.memory = 0 if literal else math.ceil(sightings / self.theta)
        self.sketch = SpaceSaving(math.ceil(counters / self.theta), self.memory or None)
        self.total = self.ageings = 0

    def sees_hot(self, key):
        """Count one message; whether its key is hot now."""
        if self.memory and self.sketch.seen - self.sketch.seen_when_aged == self.memory:
            self.total = math.ceil(self.total / 2)
            self.ageings += 1
        self.sketch.add(key)
        self.total += 1
        return self.count_of(key) >= self.needed()

    def count_of(self, key):
        return self.sketch.bounds(key)[1]

    def needed(self):
        return math.ceil(self.theta * max(self.total, self.memory))


class WChoices(GreedyD):
    def __init__(self, ids, salt, first, head):
        super().__init__(ids, salt)
        self.cursor, self.head = first, head

    def route(self, key):
        if not self.head.sees_hot(key):
            return super().route(key)
        self.cursor = least_of_set(self.loads, range(len(self.ids)), self.cursor)
        return self.send_to(self.cursor)


class RoundRobinHead(WChoices):
    def route(self, key):
        if not self.head.sees_hot(key):
            return GreedyD.route(self, key)
        turn, self.cursor = self.cursor, (self.cursor + 1) % len(self.ids)
        return self.send_to(turn)


def find_optimal_choices(shares, n, epsilon):
    """Proposition 4.1 to the letter: every d from p₁·n on, every prefix of the head."""
    p = sorted(shares, reverse=True)
    if not p:
        return min(2, n)
    for d in range(max(2, math.ceil(p[0] * n)), n):
        for h in range(1, len(p) + 1):
            b = n - n * ((n - 1) / n) ** (h * d)
            hottest, head = sum(p[:h]), min(sum(p), 1)
            load = hottest + (b / n) ** d * (head - hottest) + (b / n) ** 2 * (1 - head)
            if load > b * (1 / n + epsilon):
                break
        else:
            return d
    return n


class LiteralDChoices(GreedyD):
    """Algorithm 1 of "When two choices are not enough". Ties are broken arbitrarily: `allowed` says
    who may be taken, and `send_to` must be told who was. `best_d` takes shares and says d."""

    def __init__(self, ids, salt, head, best_d):
        super().__init__(ids, salt)
        self.head, self.best_d = head, best_d

    def allowed(self, key):
        """The numbers of the workers that the next message may go to if its key is `key`."""
        if not self.head.sees_hot(key):
            return self.least_loaded(key, 2)[:1]
        counts = [count for _, count, *_ in self.head.sketch.slots]
        total = self.head.total
        self.d = self.best_d([c / total for c in counts if c >= self.head.theta * total])
        return self.least_loaded(key, self.d)

    def least_loaded(self, key, d):
        """The least loaded of the key's workers, in the order of their hash functions."""
        everybody = d >= len(self.ids) and self.head.count_of(key) >= self.head.needed()
        choices = range(len(self.ids)) if everybody else self.choices(key, d)
        least = min(self.loads[w] for w in choices)
        return [w for w in choices if self.loads[w] == least]

    def choices(self, key, d):
        return [hashed(key, self.salt, i, len(self.ids)) for i in range(d)]


class DChoices(LiteralDChoices):
    """With our additions; with `distinct`, a hot key's hash functions go on until d workers differ."""

    def __init__(self, ids, salt, head, best_d, intervals, slack, distinct=False):
        super().__init__(ids, salt, head, best_d)
        self.slack, self.distinct = slack, distinct
        self.shortest, self.longest = intervals
        self.interval, self.due = self.shortest, 0
        self.found_at = self.total_then = self.ageings_then = 0
        self.counts_then, self.hot_then = {}, set()

    def choices(self, key, d):
        if not (self.distinct and self.hot):
            return super().choices(key, d)
        sequence = (hashed(key, self.salt, i, len(self.ids)) for i in itertools.count())
        found = []
        while len(found) < d:
            worker = next(sequence)
            found += [worker] if worker not in found else []
        return found

    def allowed(self, key):
        hot = self.hot = self.head.sees_hot(key)
        slot = [k for k, *_ in self.head.sketch.slots].index(key)
        if self.head.count_of(key) == 2 * self.head.needed() and slot not in self.hot_then:
            self.interval = self.shortest
            self.due = min(self.due, self.found_at + self.shortest)
        self.must_find = hot and self.head.sketch.seen >= self.due
        return self.least_loaded(key, self.d) if hot else self.least_loaded(key, 2)[:1]

    def send_to(self, worker):
        super().send_to(worker)
        if self.must_find:
            self.find_d()
            self.forgive()

    def find_d(self):
        halved = 2 if self.head.ageings != self.ageings_then else 1
        span = max(self.head.total - self.total_then // halved, 1)
        counts = {slot: count for slot, (_, count, *_) in enumerate(self.head.sketch.slots)}
        self.hot_then = {slot for slot, count in counts.items() if count >= self.head.needed()}
        shares = []
        for slot in self.hot_then:
            lately = max(counts[slot] - self.counts_then.get(slot, 0) // halved, 0)
            doubt = 2 * math.sqrt(lately + 1)
            share = max(counts[slot] / self.head.total, (lately - doubt) / span)
            shares.append(min(share, (lately + doubt + 2) / span))
        found = self.best_d(shares)
        if found != self.d - 1 or found <= 2:
            self.d = found
        self.counts_then, self.total_then = counts, self.head.total
        self.ageings_then, self.found_at = self.head.ageings, self.head.sketch.seen
        self.due = self.found_at + self.interval
        self.interval = min(2 * self.interval, self.longest)

    def forgive(self):
        lowest = sum(self.loads) // len(self.loads) - self.slack
        self.loads = [max(load, lowest) for load in self.loads]


class Capacities:
    """⌈(1 + ε) · m · share⌉ for message number m, and what has been sent."""

    def __init__(self, shares, epsilon, patience):
        self.shares, self.epsilon, self.patience = shares, epsilon, patience
        self.loads = [0] * len(shares)
        self.sent = self.renew_at = 0

    def at(self, m):
        return [math.ceil((1 + self.epsilon) * m * share) for share in self.shares]

    def first_with_room(self, workers):
        """The first of these worker numbers that has room for the next message, which it gets."""
        if self.sent >= self.renew_at:
            self.renew()
        worker = next(w for w in workers if self.loads[w] < self.now[w])
        self.loads[worker] += 1
        self.sent += 1
        return worker

    def renew(self):
        m = self.sent + 1
        self.now = self.at(m)
        unchanged_until = m
        while self.at(unchanged_until + 1) == self.now:
            unchanged_until += 1
        slack = self.epsilon * m / 2
        patient = math.floor(min(slack, self.patience * len(self.shares)))
        self.renew_at = max(unchanged_until, self.sent + patient)


def power_of_random_choices(key, salt, m, n, load, epsilon):
    """GetWorker, Algorithm 1 of "Consistent Grouping", line by line, for message number m."""
    i = 0
    worker = hashed(key, salt, i, n)
    while load[worker] >= (1 + epsilon) * m / n:
        i += 1
        worker = hashed(key, salt, i, n)
    load[worker] += 1
    return worker


class RandomChoices:
    def __init__(self, ids, salt, capacities):
        self.ids, self.salt, self.capacities = list(ids), salt, capacities

    def route(self, key):
        n = len(self.ids)
        sequence = (self.choice(key, i) for i in range(64 * n + 65))
        sequence = itertools.chain(sequence, range(n))
        return self.ids[self.capacities.first_with_room(sequence)]

    def choice(self, key, i):
        return hashed(key, self.salt, i, len(self.ids))


class BoundedHashing:
    """`ring` is a list of (place, worker number)."""

    def __init__(self, ids, salt, capacities, ring):
        self.ids, self.salt, self.capacities, self.ring = ids, salt, capacities, sorted(ring)

    def route(self, key):
        where = mix(key ^ self.salt)
        after = [worker for place, worker in self.ring if place >= where]
        before = [worker for place, worker in self.ring if place < where]
        return self.ids[self.capacities.first_with_room(after + before)]


class ConsistentGrouping(RandomChoices):
    """RandomChoices over virtual workers, whose `ids` change hands; queues are lists of ids.

    `circle` is a list of (place, virtual worker), if keys go clockwise on one."""

    def __init__(self, owners, salt, capacities, time_slot, circle=()):
        super().__init__(owners, salt, capacities)
        self.time_slot, self.circle = time_slot, sorted(circle)
        self.live = list(dict.fromkeys(owners))
        self.idle, self.busy, self.moved_at = [], [], {}
        self.latest, self.overloaded_longest_ago_first = dict.fromkeys(self.live, 0), []
        self.had_longest_first = list(range(len(owners)))

    def choice(self, key, i):
        if not self.circle:
            return super().choice(key, i)
        where = hashed(key, self.salt, i, 2**32) * 2**32
        after = [virtual for place, virtual in self.circle if place >= where]
        return after[0] if after else self.circle[0][1]

    def observe(self, now, signals):
        """`signals` are pairs (worker, +1 for idle, −1 for busy, or 0 for neither)."""
        for worker, signal in signals:
            if worker not in self.live:
                continue
            self.latest[worker] = signal
            for queue, meaning in ((self.idle, 1), (self.busy, -1)):
                if signal == meaning and worker not in queue:
                    queue.append(worker)
                if signal != meaning and worker in queue:
                    queue.remove(worker)
            if signal == -1:
                if worker in self.overloaded_longest_ago_first:
                    self.overloaded_longest_ago_first.remove(worker)
                self.overloaded_longest_ago_first.append(worker)
        while True:
            givers = [w for w in self.busy if self.may_move(w, now) and self.ids.count(w) > 1]
            takers = [w for w in self.takers() if self.may_move(w, now)]
            if not givers or not takers:
                return
            self.move(givers[0], takers[0])
            self.moved_at[givers[0]] = self.moved_at[takers[0]] = now

    def takers(self):
        if 1 in self.latest.values():
            return self.idle
        ago = self.overloaded_longest_ago_first
        in_order = [*(w for w in self.live if w not in ago), *ago]
        return [w for w in in_order if self.latest[w] == 0]

    def may_move(self, worker, now):
        return worker not in self.moved_at or now - self.moved_at[worker] >= self.time_slot

    def move(self, busy, idle):
        virtual = next(v for v in self.had_longest_first if self.ids[v] == busy)
        self.ids[virtual] = idle
        self.had_longest_first.remove(virtual)
        self.had_longest_first.append(virtual)
        self.busy.remove(busy)
        if idle in self.idle:
            self.idle.remove(idle)


class TableRouting:
    def __init__(self, buckets, seed, entries):
        self.by_hash, self.entries = KeyGrouping(buckets, seed), entries

    def route(self, key):
        return self.entries[key] if key in self.entries else self.by_hash.route(key)


def dealt(total, shares):
    """`total` things by largest remainders, at least one each."""
    due = [total * share for share in shares]
    counts = [max(math.floor(d), 1) for d in due]
    everybody = range(len(due))
    while sum(counts) < total:
        counts[max(everybody, key=lambda w: due[w] - counts[w])] += 1
    while sum(counts) > total and max(counts) > 1:
        rich = [w for w in everybody if counts[w] > 1]
        counts[max(rich, key=lambda w: counts[w] - due[w])] -= 1
    return counts


def redeal(owners, shares):
    """The owners afterwards: each keeps the last of its places that it is due, and what is given
    up goes to those that lack some, in the order of `shares`."""
    due = dict(zip(shares, dealt(len(owners), list(shares.values())), strict=True))
    kept = {
        worker: [p for p, o in enumerate(owners) if o == worker][-due[worker] :] for worker in due
    }
    given_up = [place for place, o in enumerate(owners) if place not in kept.get(o, [])]
    takers = [w for w in due for _ in range(due[w] - len(kept[w]))]
    after = list(owners)
    for place, worker in zip(given_up, takers, strict=True):
        after[place] = worker
    return after


# --- metrics ------------------------------------------------------------------------------------


def imbalance(numbers, shares):
    """The largest normalized load fraction minus the average one."""
    n = len(shares)
    normalized = [list(numbers).count(w) / (len(numbers) * n * shares[w]) for w in range(n)]
    return max(normalized) - sum(normalized) / n


def worst_window(numbers, shares, window, step):
    """The largest load ÷ fair load over windows that begin at `window`, `window + step`, …"""
    loads = [
        numbers[start : start + window].count(w) / (window * shares[w])
        for start in range(window, len(numbers) - window + 1, step)
        for w in range(len(shares))
    ]
    return max(loads, default=None)


def replication(keys, numbers):
    """How many different keys there are, and how many different (key, worker) pairs."""
    return len(set(keys)), len(set(zip(keys, numbers, strict=True)))


# --- workloads ----------------------------------------------------------------------------------


def alias_table_probabilities(accept, alias):
    """The probability of each rank, by going through all cells of the table."""
    probabilities = [0.0] * len(accept)
    for cell in range(len(accept)):
        probabilities[cell] += accept[cell] / len(accept)
        probabilities[alias[cell]] += (1 - accept[cell]) / len(accept)
    return probabilities


def uniform(salt, counter):
    """53 bits of the mixed counter, as a number below 1."""
    return (mix((salt + counter * 0x9E3779B97F4A7C15) & _WORD) >> 11) / 2**53


def zipf_rank(salt, position, accept, alias):
    """The rank that the message at `position` has."""
    spot = uniform(salt, position) * len(accept)
    cell = int(spot)
    return cell if spot - cell < accept[cell] else alias[cell]


def shuffled(salt, items):
    """Fisher and Yates, from the end."""
    items = list(items)
    for i in range(len(items) - 1, 0, -1):
        j = int(uniform(salt, i) * (i + 1))
        items[i], items[j] = items[j], items[i]
    return items


def power_law(exponent, ranks, shift=0.0):
    """The probability of each rank."""
    weights = [(rank + shift) ** -exponent for rank in range(1, ranks + 1)]
    return [weight / sum(weights) for weight in weights]


def expected_distinct(probabilities, messages):
    """How many keys are met at least once."""
    return sum(1 - (1 - p) ** messages for p in probabilities)


def power_law_rank(salt, position, exponent, ranks, shift, table, accept, alias):
    """The rank, from 0, of the message at `position`; those beyond `table` by rejection."""
    cell = zipf_rank(salt, position, accept, alias)
    if cell < table:
        return cell

    def area(x):
        """Under the continuous law, between the first rank's left edge and x."""
        low, high = table + 0.5 + shift, x + shift
        if exponent == 1:
            return math.log(high / low)
        return ((high / low) ** (1 - exponent) - 1) / (1 - exponent)

    def height(rank):
        """Of the rank's bar, in the same unit: it is one wide."""
        return ((rank + shift) / (table + 0.5 + shift)) ** -exponent / (table + 0.5 + shift)

    word = mix((salt + position * 0x9E3779B97F4A7C15) & _WORD)
    while True:
        word = mix((word + 0x9E3779B97F4A7C15) & _WORD)
        spot = (word >> 11) / 2**53 * area(ranks + 0.5)
        rank = next(r for r in range(table + 1, ranks + 1) if spot <= area(r + 0.5))
        # The bar covers the right part of what lies between the rank's two edges.
        if spot >= area(rank + 0.5) - height(rank):
            return rank - 1


def raise_load(swaps, task, wanted, tries, probabilities, keys, task_of):
    """The keys of the ranks after swaps that give `task` at least `wanted` more of the stream."""
    keys = list(keys)

    def load():
        return sum(p for p, key in zip(probabilities, keys, strict=True) if task_of(key) == task)

    before = load()
    for attempt in range(tries):
        if load() - before >= wanted - 1e-12:
            break
        word = mix((swaps + attempt * 0x9E3779B97F4A7C15) & _WORD)
        a, b = ((half * len(keys)) >> 32 for half in (word >> 32, word & _HALF_WORD))
        a, b = min(a, b), max(a, b)
        if probabilities[a] > probabilities[b] and task_of(keys[b]) == task != task_of(keys[a]):
            keys[a], keys[b] = keys[b], keys[a]
    return keys


# --- queueing -----------------------------------------------------------------------------------

# An era is a pair: when it ends, and the service time of each worker in it.


def arrival_times(rates, messages):
    """When the area under the rates, scaled to `messages` in as much time, reaches each number."""
    stretch = Fraction(messages, len(rates))
    parts = [Fraction(rate) * messages / sum(map(Fraction, rates)) for rate in rates]
    times = []
    for i in range(messages):
        k = next(k for k in range(len(parts)) if i < sum(parts[: k + 1]))
        times.append(float(stretch * (k + (i - sum(parts[:k])) / parts[k])))
    return times


def era_at(eras, now):
    """The service times at that time."""
    return next(service for until, service in eras if now < until)


def capacity_between(eras, worker, begin, end):
    """How many messages the worker can serve between two times."""
    capacity, since = 0.0, 0.0
    for until, service in eras:
        capacity += max(0.0, min(until, end) - max(since, begin)) / service[worker]
        since = until
    return capacity


def finish_times(workers, arrivals, eras, work=lambda worker, number: 1.0):
    """First come, first served; a message takes the time of the era in which its service begins."""
    free, numbers, finishes = {}, {}, []
    for worker, arrival in zip(workers, arrivals, strict=True):
        begin = max(arrival, free.get(worker, 0.0))
        number = numbers.get(worker, 0)
        free[worker] = begin + era_at(eras, begin)[worker] * work(worker, number)
        numbers[worker] = number + 1
        finishes.append(free[worker])
    return finishes


def exponential_work(salts):
    """Drawn by the worker and the number of the message among that worker's."""
    return lambda worker, number: -math.log1p(-uniform(salts[worker], number))


def queue_lengths(workers, arrivals, finishes, n, now):
    """Messages of each worker that have arrived and are not done."""
    there = [
        worker
        for worker, arrival, finish in zip(workers, arrivals, finishes, strict=True)
        if arrival <= now < finish
    ]
    return [there.count(worker) for worker in range(n)]


class Piggyback:
    """Looks at every acknowledgement; each carries the worker's latest signal."""

    def __init__(self):
        self.on_the_way = []  # (finish, worker, source)
        self.signals, self.heard, self.slots = {}, {}, 0

    def take(self, worker, source, finish):
        self.on_the_way.append((finish, worker, source))

    def raise_signals(self, signals):
        self.slots += 1
        self.signals = dict(enumerate(signals))

    def arrived(self, now, inclusive=True):
        def has_come(finish):
            return finish <= now if inclusive else finish < now

        come = sorted((a for a in self.on_the_way if has_come(a[0])), key=lambda a: a[0])
        self.on_the_way = [a for a in self.on_the_way if not has_come(a[0])]
        news = {}
        for _, worker, source in come:
            signal = self.signals.get(worker, 0)
            slot, known = self.heard.get((worker, source), (0, 0))
            if slot < self.slots and (signal or known):
                self.heard[worker, source] = self.slots, signal
                news.setdefault(source, {})[worker] = signal
        return news


def simulate_queues(times, eras, n, sources, slots, block, route, observe, wish):
    """Message by message. Returns the messages (worker, arrival, finish) and each slot's numbers.

    `route(source, i)` gives a worker, `observe(source, slots, signals)` tells a source what it has
    heard, and `wish(utilisation, queue)` is a worker's signal at the end of a slot, or 0.
    """
    slot, free = len(times) / slots, [0.0] * n
    messages, timeline, acks, since = [], [], Piggyback(), 0

    def tell(news):
        for source, signals in news.items():
            observe(source, len(timeline), signals)

    def end_slot():
        begin, end = len(timeline) * slot, (len(timeline) + 1) * slot
        tell(acks.arrived(end, inclusive=False))
        queues = queue_lengths(*zip(*messages, strict=True), n, end) if messages else [0] * n
        own = [[f - t for v, t, f in messages if v == w and t >= begin] for w in range(n)]
        loads = [len(own[w]) / capacity_between(eras, w, begin, end) for w in range(n)]
        counts = [sum(v == w for v, _, _ in messages) for w in range(n)]
        so_far = [counts[w] / capacity_between(eras, w, 0.0, end) for w in range(n)]
        means = [sum(latencies) / len(latencies) for latencies in own if latencies]
        done = sum(begin < f <= end for _, _, f in messages)
        timeline.append(
            {
                "time": end,
                "messages": len(messages),
                "queue_max": max(queues),
                "queue_min": min(queues),
                "queue_mean": sum(queues) / n,
                "latency_max": max(means, default=None),
                "latency_min": min(means, default=None),
                "utilisation_max": max(loads),
                "utilisation_min": min(loads),
                "utilisation_mean": sum(loads) / n,
                "imbalance": max(loads) - sum(loads) / n,
                "cumulative_imbalance": max(so_far) - sum(so_far) / n,
                "throughput": done / slot,
            }
        )
        acks.raise_signals([wish(loads[w], queues[w]) for w in range(n)])

    for i, now in enumerate(times):
        while now >= (len(timeline) + 1) * slot:
            end_slot()
            since = i
        if (i - since) % block == 0:
            tell(acks.arrived(now))
        worker = route(i % sources, i)
        begin = max(now, free[worker])
        free[worker] = begin + era_at(eras, begin)[worker]
        messages.append((worker, now, free[worker]))
        acks.take(worker, i % sources, free[worker])
    while len(timeline) < slots:
        end_slot()
    return messages, timeline


# --- operators ----------------------------------------------------------------------------------

# Every aggregate is a function of the list of one key's values, None among them.


def spark_order(value):
    """A sort key by Spark's rules: NaN above all numbers, strings by their UTF-8 bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _there(values):
    return [value for value in values if value is not None]


def aggregate_count(values):
    return len(_there(values))


def aggregate_sum(values):
    """Exact for integers and decimals; None where there is no value."""
    values = _there(values)
    if not values:
        return None
    if isinstance(values[0], Decimal):
        return sum_of_decimals(values)
    return sum(values) if isinstance(values[0], int) else sum(values, 0.0)


def sum_of_decimals(values):
    context = Context(prec=100)
    total = Decimal(0)
    for value in values:
        total = context.add(total, value)
    return total


def aggregate_mean(values, decimal_scale=None):
    """A double, or a decimal of the given scale, rounded half up."""
    values = _there(values)
    if not values:
        return None
    if decimal_scale is None:
        return sum((float(value) for value in values), 0.0) / len(values)
    scaled = Fraction(sum_of_decimals(values)) / len(values) * 10**decimal_scale
    rounded = math.floor(abs(scaled) + Fraction(1, 2))
    return Decimal(rounded if scaled >= 0 else -rounded).scaleb(-decimal_scale, Context(prec=100))


def aggregate_min(values):
    return min(_there(values), key=spark_order, default=None)


def aggregate_max(values):
    return max(_there(values), key=spark_order, default=None)


def aggregate_distinct(values):
    return len({spark_order(value) for value in _there(values)})


def aggregate_top_k(values, k):
    """(value, count), the highest count first, the smaller value first among equals."""
    counts, example = {}, {}
    for value in _there(values):
        order = spark_order(value)
        counts[order] = counts.get(order, 0) + 1
        example[order] = value
    ranking = sorted(counts, key=lambda order: (-counts[order], order))
    return [(example[order], counts[order]) for order in ranking[:k]]


def aggregate_quantile(values, p):
    """The ⌈p·n⌉-th smallest value."""
    ordered = sorted((float(value) for value in _there(values)), key=spark_order)
    return ordered[max(1, math.ceil(p * len(ordered))) - 1] if ordered else None
