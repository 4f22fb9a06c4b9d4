"""The slow, obvious twin of the partitioned log: events one by one, message sets by name."""

import heapq
from itertools import count


class Log:
    """Consumers with queues. A message of a set that is not open yet is put aside; when the set opens
    it joins the queue, behind what is there.

    `begin[i]` is when message i begins to be processed, `order[key]` the messages of a key in the
    order in which that happened."""

    def __init__(self, service, hand_over):
        self.service, self.hand_over = service, hand_over
        self.free = {}
        self.begin, self.order = {}, {}
        self.current = {}  # key → its current set
        self.open = set()  # sets that are open
        self.aside = {}  # set → what waits for it
        self.events, self.numbers, self.sets = [], count(), count(1)

    def at(self, time, what):
        heapq.heappush(self.events, (time, next(self.numbers), what))

    def run(self, until):
        """Everything that happens by then."""
        while self.events and self.events[0][0] <= until:
            time, _, what = heapq.heappop(self.events)
            what(time)

    def message(self, number, key, partition, time):
        self.run(time)
        which = self.current.get(key)
        self._reach(which, lambda now: self._serve(number, key, partition, now), time)

    def move(self, key, source, time):
        self.run(time)
        old, new = self.current.get(key), next(self.sets)
        self.current[key] = new

        def marker(now):
            reached = max(now, self.free.get(source, 0.0))
            self.at(reached + self.hand_over, lambda then: self._opened(new, then))

        self._reach(old, marker, time)

    def _reach(self, which, what, now):
        """Do it, or put it aside where the set is not open."""
        if which is None or which in self.open:
            what(now)
        else:
            self.aside.setdefault(which, []).append(what)

    def _opened(self, which, now):
        self.open.add(which)
        for what in self.aside.pop(which, ()):
            what(now)

    def _serve(self, number, key, partition, now):
        self.begin[number] = max(now, self.free.get(partition, 0.0))
        self.free[partition] = self.begin[number] + self.service
        self.order.setdefault(key, []).append(number)
