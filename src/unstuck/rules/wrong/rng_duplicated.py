"""Workers draw the same random numbers, so their augmentations repeat each other.

## It means
A generator that is made in `__init__` is copied into every worker, state and all. torch seeds the global generators of
each worker differently, but knows nothing of this one. The same comes of a `worker_init_fn` that seeds every worker
alike. Where workers start again for each epoch, every epoch begins with the same numbers again.

## Fix
Seed by worker, from `get_worker_info().seed`, which differs from worker to worker and from epoch to epoch:

```python
class Augmented(Dataset):  # before: every worker has a copy of this generator
    def __init__(self):
        self.rng = numpy.random.default_rng(0)
```

```python
def seed_worker(_):  # after
    info = torch.utils.data.get_worker_info()
    info.dataset.rng = numpy.random.default_rng(info.seed)


loader = DataLoader(dataset, num_workers=4, worker_init_fn=seed_worker)
```

Or draw from the global generators of torch, numpy or random, which torch seeds differently in each worker (those of
numpy if numpy is installed). `torch.manual_seed(0)` in the main process makes that repeatable.

## Check it yourself

```python
class Drawn(Augmented):  # your dataset
    def __getitem__(self, index):
        return torch.utils.data.get_worker_info().id, self.rng.random()


for worker, number in DataLoader(Drawn(), batch_size=None, num_workers=2):
    print(int(worker), float(number))  # the same numbers from both workers?
```

## Not this, if
- the samples themselves repeat: [iterable-duplicated](iterable-duplicated.md)
- every epoch has the same order: [sampler-no-set-epoch](sampler-no-set-epoch.md),
  [persistent-stale-epoch](persistent-stale-epoch.md)
- the generator is seeded for every index on purpose: then the numbers belong to the sample

## How sure
Judged from the state of every random generator that a worker's copy of the dataset can draw from, before the first
batch of an epoch and after it: generators the dataset holds, and the global ones of random, numpy and torch. Two
workers that start from the same state, draw, and end in the same state have drawn the same numbers. Certain of the
states, and that they were drawn from. Generators that are seeded again for every index end in different states and are
left alone. So are iterable datasets, whose workers may shuffle the same list before each takes its share, and a single
worker. Where the number of draws depends on the sample, workers end in different states, and this stays silent although
their numbers overlap.

## Seen in
- https://github.com/pytorch/pytorch/issues/5059: np.random gave the same numbers in every worker
- https://github.com/xingyizhou/CenterNet/issues/233: identical augmentation in all workers and epochs
- https://github.com/TorchDSP/torchsig/issues/343: a transform with a generator of its own repeats in every worker
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
    remedy, *alternatives = _remedies(loader, name, before.partition(" ")[0])
    return case.finding(
        main,
        cause=f"{whose[:1].upper()}{whose[1:]} draw the same random numbers: "
        f"{GLOBAL.get(name, name)} starts from the same state in each.",
        seen=[*_seen(name, before, workers, again), f"every draw is used {often}", f"loader: {loader.name}"],
        remedy=remedy,
        alternatives=alternatives,
        onset_s=states(workers[0])[0].at,
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _twins(crew: list[Process]) -> tuple[str, str, list[Process]] | None:
    """A generator, its state, and the workers that drew the same from it in their first epoch."""
    alike: dict[tuple[str, str, str], list[Process]] = {}
    for worker in crew:
        known = states(worker)
        for name, (before, after) in known[0].generators.items() if known else ():
            if _is_drawn_from(name, known):
                alike.setdefault((name, before, after), []).append(worker)
    most = max(alike, key=lambda one: len(alike[one]), default=None)
    return (most[0], most[1], alike[most]) if most is not None and len(alike[most]) > 1 else None


def _is_drawn_from(name: str, known: list[State]) -> bool:
    """In every epoch: what is drawn only once may be a table that is to be the same everywhere."""
    pairs = [one.generators[name] for one in known if name in one.generators and one.generators[name][1]]
    return bool(pairs) and bool(known[0].generators[name][1]) and all(before != after for before, after in pairs)


def _seen(name: str, before: str, workers: list[Process], again: int) -> Iterator[str]:
    after = states(workers[0])[0].generators[name][1]
    yield (
        f"{name} ({before.partition(' ')[0]}) in {names(workers)}: state {_state(before)} before the first batch, "
        f"state {_state(after)} after it"
    )
    if again > 1:
        yield f"the same in {many(again, 'epoch')}: workers start again for each, from the same state"


def _state(told: str) -> str:
    return told.rpartition(" ")[2]


def _remedies(loader: Loader, name: str, kind: str) -> list[Remedy]:
    if name in GLOBAL:
        init = loader.worker_init_fn.rpartition(".")[2] if loader.worker_init_fn else "the dataset"
        return [
            Remedy(
                f"Remove the constant seed of {GLOBAL[name]} from {init}: torch seeds each worker and epoch differently"
            ),
            Remedy(
                "Where a seed must be set in the worker, derive it from torch's",
                code=["seed = torch.utils.data.get_worker_info().seed % 2**32"],
            ),
        ]
    attribute = name.removeprefix("self.")
    where = f" at {short(loader.reads_at)}" if is_users(loader.reads_at) else ""
    new = [f"    info.dataset.{attribute} = {NEW[kind]}"] if kind in NEW else []
    seeding = [
        "def seed_worker(_):",
        "    info = torch.utils.data.get_worker_info()",
        *new,
        f"loader = DataLoader(dataset, num_workers={loader.num_workers}, worker_init_fn=seed_worker)",
    ]
    return [
        Remedy("Seed it in each worker, by a worker_init_fn of the loader", code=seeding if new else []),
        Remedy(f"Draw{where} from the global generators of torch or numpy, which torch seeds by worker and epoch"),
    ]
