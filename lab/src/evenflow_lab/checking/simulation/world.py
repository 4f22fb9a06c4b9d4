"""Actors that take turns, and a clock that only they move: the same seed, the same interleaving."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

_TICK = 0.02  # seconds that a call takes


class Died(BaseException):
    """The actor's process is dead, as after SIGKILL: no `except Exception` may survive it."""


class Actor:
    """A process of the simulated system, on a thread of its own that runs only when it is its turn."""

    def __init__(self, world: World, name: str, run: Callable[[], object]) -> None:
        self.world, self.name = world, name
        self.wakes_at = 0.0  #: not before, by the world's clock
        self.dead = False
        self.finishing = 0  #: tasks that run on although their driver is dead
        self.behind = 0.0  #: seconds that its own clock has stood still, or was set back
        self.ended = False
        self.error: BaseException | None = None
        self._turn = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, args=(run,), name=name, daemon=True)

    def clock(self) -> float:
        """The monotonic clock of its machine."""
        return self.world.now - self.behind

    def sleep(self, seconds: float) -> None:
        """Let others go on for so long."""
        self.wakes_at = self.world.now + max(seconds, 0.0)
        self.world.call(f"sleep {seconds:g}")

    def start(self) -> None:
        self._thread.start()

    def go(self) -> None:
        self._turn.release()

    def wait(self) -> None:
        self._turn.acquire()

    def join(self) -> None:
        self._thread.join()

    def _main(self, run: Callable[[], object]) -> None:
        self.wait()
        try:
            if not self.dead:
                run()
        except BaseException as error:
            self.error = error
        self.ended = True
        self.world.hand_over()


class World:
    """What all actors of a schedule share: turns, time, chance, and a record of what happened.

    Guarantee: with the same seed and the same actors, the same calls in the same order.

    Parameters:
        seed: of all chances.
        switching: how likely it is that another actor goes on after a call.
    """

    def __init__(self, seed: int, switching: float = 0.3) -> None:
        self.chance = random.Random(seed)
        self.names = random.Random(seed ^ 0x5EED)
        self.now = 1000.0
        self.calls = 0
        self.happened: Counter[str] = Counter()  #: faults, by name
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.before_call: Callable[[str], None] = lambda what: None
        self._switching = switching
        self._seconds = 0.0
        self._trace = hashlib.sha256()
        self._main = threading.Semaphore(0)

    def spawn(self, name: str, run: Callable[[], object]) -> Actor:
        """A new actor, which runs when its turn comes."""
        actor = Actor(self, name, run)
        self.actors.append(actor)
        actor.start()
        return actor

    def run(self) -> None:
        """Until all actors have ended."""
        if self._next() is None:
            return
        self.hand_over()
        self._main.acquire()
        for actor in self.actors:
            actor.join()

    def call(self, what: str) -> None:
        """One step of the current actor is due: others may go first, and it may die here."""
        me = self.current
        if me is None:
            return  # whoever looks on from outside takes no time
        if me.dead and not me.finishing:
            raise Died(what)
        self.calls += 1
        self.now += _TICK
        self._trace.update(f"{me.name} {what}\n".encode())
        self.before_call(what)
        if me.wakes_at > self.now or self.chance.random() < self._switching:
            self._switch(me)
        if me.dead and not me.finishing:
            raise Died(what)

    def hand_over(self) -> None:
        """Whoever's turn it is goes on; called by an actor that has ended."""
        chosen = self._next()
        self.current = chosen
        if chosen is None:
            self._main.release()
        else:
            chosen.go()

    def trace(self) -> str:
        """A digest of all calls so far."""
        return self._trace.hexdigest()[:16]

    def uuid4(self) -> UUID:
        """A name that is new and the same in every run of the schedule."""
        return UUID(int=self.names.getrandbits(128), version=4)

    # --- what stands for the module `time` in the code under test ---------------------------------

    def time(self) -> float:
        return 1.7e9 + self.now

    def perf_counter(self) -> float:
        self._seconds += 1e-4
        return self._seconds

    def process_time(self) -> float:
        return self.perf_counter()

    def monotonic(self) -> float:
        return self.now if self.current is None else self.current.clock()

    def sleep(self, seconds: float) -> None:
        if self.current is None:
            self.now += seconds
        else:
            self.current.sleep(seconds)

    def _switch(self, me: Actor) -> None:
        chosen = self._next()
        if chosen is None or chosen is me:
            return
        self.current = chosen
        chosen.go()
        me.wait()

    def _next(self) -> Actor | None:
        living = [actor for actor in self.actors if not actor.ended]
        if not living:
            return None
        ready = [actor for actor in living if actor.wakes_at <= self.now]
        if not ready:
            first = min(living, key=lambda actor: actor.wakes_at)
            self.now = first.wakes_at
            ready = [actor for actor in living if actor.wakes_at <= self.now]
        return ready[0] if len(ready) == 1 else self.chance.choice(ready)


class Stopwatch:
    """Substitutes for `time` and `uuid4` in modules that take them from outside."""

    def __init__(self, *modules: Any) -> None:
        self._modules = modules
        self._kept: list[tuple[Any, str, Any]] = []

    def install(self, world: World) -> None:
        for module in self._modules:
            for name, new in (("uuid4", world.uuid4), ("time", world)):
                if hasattr(module, name):
                    self._kept.append((module, name, getattr(module, name)))
                    setattr(module, name, new)

    def remove(self) -> None:
        while self._kept:
            setattr(*self._kept.pop())
