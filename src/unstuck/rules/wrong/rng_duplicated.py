"""Workers draw the same random numbers, so their augmentations repeat each other.

## What it looks at
The state of every random generator that a worker's copy of the dataset can draw from, before the first batch of a pass
and after it: generators the dataset holds, and the global ones of random, numpy and torch. Two workers that start from
the same state, draw, and end up in the same state have drawn the same numbers.

## Why it happens
A generator that is made in `__init__` is copied into every worker, state and all. torch seeds the global generators of
each worker differently, but knows nothing of this one. The same comes of a `worker_init_fn` that seeds every worker
alike. Where workers are started anew for each epoch, every epoch begins with the same numbers again.

## What to do
Seed by worker: in `worker_init_fn` from `get_worker_info().seed`, which differs from worker to worker and from epoch
to epoch. Or draw from the global generators, which torch has seeded.

## How sure it is
Sure of the states, and that they were drawn from. Generators that are seeded anew for every index end in different
states and are left alone. So are iterable datasets, whose workers may shuffle the same list before each takes its
share, and a single worker. Where the number of draws depends on the sample, workers end in different states, and this
stays silent although their numbers overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import crews, each_once, names, part, states
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, State
from ...evidence.process import Process
from ...wording.text import many, short
from ..rule import rule

GLOBAL = {"random": "Python's random", "numpy": "numpy.random", "torch": "torch"}
NEW = {
    "numpy.Generator": "numpy.random.default_rng(info.seed)",
    "numpy.RandomState": "numpy.random.RandomState(info.seed % 2**32)",
    "random.Random": "random.Random(info.seed)",
    "torch.Generator": "torch.Generator().manual_seed(info.seed)",
}


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in case.training_loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    if loader.iterable or loader.num_workers < 2:
        return None
    started = crews(case, main, loader)
    found = [one for crew in started if (one := _twins(crew)) is not None]
    if not found:
        return None
    name, before, workers = found[0]
    again = sum(other[:2] == (name, before) for other in found) if not loader.persistent_workers else 1
    whose = part(len(workers), loader.num_workers)
    often = "twice" if len(workers) == 2 else f"{len(workers)} times"
    return case.finding(
        main,
        cause=f"{whose[:1].upper()}{whose[1:]} of {loader.name} draw the same random numbers, so that every "
        f"draw is used {often}: {_whose(name)} starts from the same state in each of them.",
        seen=list(_seen(name, before, workers, again)),
        remedy=_remedy(loader, name, before.partition(" ")[0]),
        onset_s=states(workers[0])[0].at,
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _twins(crew: list[Process]) -> tuple[str, str, list[Process]] | None:
    """A generator, its state, and the workers that drew the same from it in their first pass."""
    alike: dict[tuple[str, str, str], list[Process]] = {}
    for worker in crew:
        known = states(worker)
        for name, (before, after) in known[0].generators.items() if known else ():
            if _is_drawn_from(name, known):
                alike.setdefault((name, before, after), []).append(worker)
    most = max(alike, key=lambda one: len(alike[one]), default=None)
    return (most[0], most[1], alike[most]) if most is not None and len(alike[most]) > 1 else None


def _is_drawn_from(name: str, known: list[State]) -> bool:
    """In every pass: what is drawn only once may be a table that is to be the same everywhere."""
    pairs = [one.generators[name] for one in known if name in one.generators and one.generators[name][1]]
    return bool(pairs) and bool(known[0].generators[name][1]) and all(before != after for before, after in pairs)


def _whose(name: str) -> str:
    return f"the global generator of {GLOBAL[name]}" if name in GLOBAL else f"the dataset's own generator {name}"


def _seen(name: str, before: str, workers: list[Process], again: int) -> Iterator[str]:
    after = states(workers[0])[0].generators[name][1]
    yield (
        f"{name} ({before.partition(' ')[0]}) was in state {_state(before)} in {names(workers)} before their first "
        f"batch, and in state {_state(after)} after it"
    )
    if again > 1:
        yield f"the same again in {many(again, 'pass')}: workers are started anew for each, from the same state"


def _state(told: str) -> str:
    return told.rpartition(" ")[2]


def _remedy(loader: Loader, name: str, kind: str) -> Remedy:
    if name in GLOBAL:
        init = f"worker_init_fn {loader.worker_init_fn.rpartition('.')[2]}" if loader.worker_init_fn else "the dataset"
        return Remedy(
            f"Do not seed {GLOBAL[name]} with a constant in the workers ({init}): torch has already seeded it, "
            "differently in each worker and epoch, and torch.manual_seed(…) in the main process makes that repeatable. "
            "Where a seed must be set, take `torch.utils.data.get_worker_info().seed % 2**32`."
        )
    attribute = name.removeprefix("self.")
    where = f" in {short(loader.reads_at)}" if is_users(loader.reads_at) else ""
    return Remedy(
        "Seed it in each worker, DataLoader(…, worker_init_fn=seed_worker): "
        "`def seed_worker(_): info = torch.utils.data.get_worker_info(); "
        f"info.dataset.{attribute} = {NEW.get(kind, '…')}`. Or "
        f"draw{where} from the global generators of torch or numpy, which torch seeds differently in each worker and "
        "epoch."
    )
