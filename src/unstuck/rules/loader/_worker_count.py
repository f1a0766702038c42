"""How many workers a loader should have: what its loading needs, against the CPU cores that are still free."""

from __future__ import annotations

from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.cpu_contention import Cores, cores_of_loop
from ...analysis.loading import Spread
from ...analysis.time_use import Loop, loops
from ...evidence.finding import Remedy
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import many

WAITING_EACH = 4  # workers for each CPU core when they wait rather than compute: each costs memory all the same
ON_CORE = 0.7  # of loading, computing or ready to: the rest is waiting for storage or sleep
LITTLE = 0.1  # of a core: a worker that only waits needs so much, too
HALF = 0.5  # of the cores that a worker needs: less room is none
COSTLY = ("spawn", "forkserver")  # ways to start workers that import everything again


class Room(NamedTuple):
    """Where the workers of one loader would have to run."""

    cpus: int | None  # that the training may use
    trainings: int  # on that node: what is advised to one of them is done by all
    cores: Cores | None  # while its batches were looped over; None: not looked at

    @property
    def is_full(self) -> bool:
        """No training process of the node has half a CPU core left for another worker that computes."""
        return self.cores is not None and self.cores.free < HALF * self.trainings

    @property
    def words(self) -> str:
        """What uses the cores."""
        cpus = many(self.cpus or 2, "CPU core")
        if self.cores is not None and self.cores.others > self.cores.used:
            return f"other programs use {self.cores.others:.1f} of {cpus}"
        whose = "the training" if self.trainings == 1 else f"{self.trainings} training processes"
        if self.cores is None:
            return f"{whose} and the workers share {cpus}"
        own = " with their workers" if self.trainings > 1 else " with its workers"
        return f"{whose}{own} use{'s' * (self.trainings == 1)} {self.cores.used:.1f} of {cpus}"

    def most(self, workers: int, spread: Spread | None) -> int:
        """The most workers that there is room for, those that it has included."""
        cpus = self.cpus or 2
        waits = spread is not None and waiting(spread)
        most = max((WAITING_EACH * cpus if waits else cpus - 1) // self.trainings, 0 if self.trainings > 1 else 1)
        if self.cores is None:
            return most
        wants = spread.computing / (1 - spread.queued) if spread is not None and spread.queued < 1 else 1.0
        free = self.cores.free / self.trainings
        free = max(free, HALF) if waits else free  # so little is always free, and it hides much waiting
        return min(most, workers + int(free / max(wants, LITTLE) + HALF))


def waiting(spread: Spread) -> bool:
    """Loading neither computes nor would compute if it had a core."""
    return spread.computing + spread.queued < ON_CORE


def room(case: Case, main: Process, loader: Loader) -> Room:
    host = case.host_of(main)
    trainings = {one.pid for one, _ in case.training_loaders if one.node == main.node}
    return Room(host.cpus or None if host else None, max(len(trainings), 1), cores_of_loop(case, main, loader))


def room_by_samples(case: Case, loop: Loop) -> Room:
    """Of a run that is only sampled. Where its own processes wait for a core, none is idle, whatever uses them."""
    host, seen = next(iter(case.host or ()), None), [one for one in case.processes or () if one.looked]
    cpus = host.cpus or None if host is not None else None
    trainings = sum(one.gets_on for one in loops(case))
    used = sum(one.cpu / one.looked for one in seen)
    full = loop.spread is not None and loop.spread.queued > loop.spread.blocked
    cores = Cores(cpus, cpus, used, 0.0 if full else max(cpus - used, 0.0)) if cpus and seen else None
    return Room(cpus, max(trainings, 1), cores)


def advice(
    loader: Loader | None, room: Room, spread: Spread | None, workers: int, needed: int, reason: str, slow: str
) -> list[Remedy]:
    """More workers, as far as there is room for them; then what else would help. `slow`: what takes the time."""
    wanted, waits = min(needed, room.most(workers, spread)), spread is not None and waiting(spread)
    before = Remedy("Preprocess the data once, before training, and store the result.")
    if wanted > workers:
        limit = f"; {many(room.cpus, 'CPU core')} may be used" if room.cpus and not waits else ""
        faster = f"Speed up {slow}{', too: more workers alone do not suffice' if wanted < needed else ''}."
        more = Remedy(f"Set {_settings(loader, wanted)} ({reason}{limit}), if memory allows.")
        return [more, Remedy(faster), before]
    if waits:
        return [
            Remedy("Move the data to faster storage (a local disk): the workers wait for storage, not for the CPU."),
            Remedy("Read larger pieces at once."),
            Remedy(f"Speed up {slow}."),
        ]
    return [
        Remedy(f"Add no workers: {room.words}. Speed up {slow}."),
        before,
        Remedy("Give the training more CPU cores."),
    ]


def _settings(loader: Loader | None, workers: int) -> str:
    """With persistent workers, where starting them in every epoch would cost more than they gain."""
    again = loader is not None and loader.context in COSTLY and loader.passes > 1 and not loader.persistent_workers
    if again:
        return settings(loader, num_workers=workers, persistent_workers=True)
    return settings(loader, num_workers=workers)
