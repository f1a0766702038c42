"""Passes over loaders: what each should yield, which workers loaded it, and what distributed samplers drew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..evidence.distributed import Collective, Phase, Sampling
from ..evidence.epochs import TRAINING, VALIDATION
from ..evidence.finding import Finding
from ..evidence.loader import Fetching, Loader, LoaderState, Skipping, State
from ..evidence.process import Failure, Process
from ..wording.text import duration, many, who
from .case import Case, once

# Workers of a loader by the iteration they were started for: a crew is what one iterator started together.


def crews(case: Case, main: Process, loader: Loader) -> list[list[Process]]:
    """In order of their start. Persistent workers are one crew for all epochs."""
    found: list[list[Process]] = [[]]
    for worker in case.workers_of(main, loader):
        if any(other.worker == worker.worker for other in found[-1]):
            found.append([])
        found[-1].append(worker)
    return [crew for crew in found if crew]


def fetched(case: Case, main: Process, loader: Loader) -> list[Fetching]:
    """What was fetched for a loader, by all its workers or by the main process itself."""
    if loader.num_workers == 0:
        return [one for one in main.fetching if one.loader == loader.number]
    return [one for worker in case.workers_of(main, loader) for one in worker.fetching]


def states(worker: Process) -> list[State]:
    """The state of a worker's copy of the dataset at the beginning of its epochs."""
    return [one for fetching in worker.fetching for one in fetching.states]


def part(count: int, of: int) -> str:
    """both workers; all 4 workers; 2 of the 4 workers."""
    if count < of:
        return f"{count} of the {of} workers"
    return "both workers" if of == 2 else f"all {of} workers"


def names(workers: list[Process]) -> str:
    """worker 0 (pid 12) and worker 1 (pid 13); worker 0 (pid 12) and 3 others."""
    first, rest = who(workers[0]), workers[1:]
    return f"{first} and {who(rest[0])}" if len(rest) == 1 else f"{first} and {len(rest)} others"


# What an epoch of a loader should yield, what torch itself explains of a difference, and findings about loaders.
EMPTY = "empty-loader-drop-last"
# What code raises that relies on at least one iteration: nothing to divide by, to name, to take or to join.
OF_NOTHING = (
    "ZeroDivisionError", "UnboundLocalError", "NameError", "StopIteration", "IndexError", "KeyError", "ValueError",
    "TypeError", "AttributeError", "AssertionError", "RuntimeError", "StatisticsError",
)  # fmt: skip


def spare(loader: Loader) -> int:
    """Batches more or fewer than len() says that are no mistake: every worker has an incomplete last batch."""
    return max(loader.num_workers, 1) - 1 if loader.iterable else 0


@once
def used_loaders(case: Case) -> list[tuple[Process, Loader]]:
    """Loaders that were trained on, and those that would have been, had a batch come."""
    empty = [(main, loader) for main in case.mains for loader in main.loaders if loader.ended and not loader.batches]
    return case.training_loaders + empty


def raised_after_nothing(process: Process, failure: Failure | None) -> Loader | None:
    """The loader whose epoch without a single batch led to an exception.

    It was the last thing that happened before; or it should have been trained on, and no step ever came: a validation
    in between changes nothing about that.
    """
    if failure is None or failure.how != "uncaught" or failure.index is not None:
        return None
    if failure.type.rpartition(".")[2] not in OF_NOTHING:
        return None
    newest = process.newest_loader
    untrained = [] if process.optimizer_steps else [one for one in process.loaders if one.drop_last and not one.batches]
    empty = [one for one in (newest, *untrained) if one is not None and _came_to_nothing(one)]
    return next((one for one in empty if (process.last_step or 0.0) <= one.now_since <= failure.at), None)


def _came_to_nothing(loader: Loader) -> bool:
    return loader.now == LoaderState.BETWEEN_PASSES and loader.passes > 0 and not loader.pass_batches


def each_once(findings: Iterable[Finding | None]) -> Iterator[Finding]:
    """One finding for each loader in the code: every rank has the same loader, and its findings say the same."""
    told: set[str] = set()
    for one in findings:
        name = one.subject.name if one is not None and one.subject is not None else ""
        if one is not None and name not in told:
            told.add(name)
            yield one


# Epochs of loaders with a distributed sampler: which train, which evaluate, and which collectives join their results.
SUMS = ("all_reduce", "reduce", "reduce_scatter")
GATHERS = ("all_gather", "gather", "all_gather_into_tensor", "_all_gather_base")
OF_OBJECTS = ("all_gather_object", "gather_object")


def phases_of(main: Process, loader: Loader) -> list[Phase]:
    """The phase of each epoch of a loader, as far as it is known."""
    return [one for one in main.phases if one.loader == loader.number and one.number_of_pass is not None]


def trained_passes(main: Process, loader: Loader) -> set[int]:
    """Epochs in which an optimizer took a step. Of those too long ago to know: those that a trained loader finished."""
    known = {one.number_of_pass or 0: one.steps for one in phases_of(main, loader)}
    ended = {one.number for one in loader.ended if one.number not in known} if loader.optimizer_steps else set()
    return ended | {number for number, steps in known.items() if steps > 0}


def made_anew(main: Process) -> list[list[Loader]]:
    """Loaders that are one loader to their user: made at the same line, over one dataset, read one after the other."""
    found: list[list[Loader]] = []
    for loader in main.loaders:
        one = next((group for group in found if _goes_on(main, group, loader)), None)
        if one is None:
            found.append([loader])
        else:
            one.append(loader)
    return found


def _goes_on(main: Process, group: list[Loader], loader: Loader) -> bool:
    datasets = {one.dataset for each in (*group, loader) for one in each.sampling}
    same = (
        loader.created is not None and loader.created == group[0].created and len(datasets) == 1 and 0 not in datasets
    )
    mine = phases_of(main, loader)
    theirs = [phase for one in group for phase in phases_of(main, one)]
    return same and all(_is_over(other, one) for one in mine for other in theirs)


def _is_over(one: Phase, other: Phase) -> bool:
    """It ended before the other begins. Two loaders that take turns, to train and to validate, are two."""
    return one.ended is not None and one.ended <= other.at


def order(one: Sampling) -> tuple[int, int, int | None]:
    """What torch's sampler makes its order of. Equal ones give the same samples in the same order."""
    return one.dataset, (one.seed or 0) + (one.epoch or 0), one.dataset_length


class Evaluated(NamedTuple):
    """An epoch that evaluated, and the collectives between its beginning and the next training."""

    phase: Phase
    collectives: list[Collective]

    @property
    def sums(self) -> list[Collective]:
        return [one for one in self.collectives if one.operation in SUMS and one.calls != "backward"]

    @property
    def gathers(self) -> list[Collective]:
        return [one for one in self.collectives if one.operation in GATHERS]


def evaluations(main: Process, loader: Loader) -> list[Evaluated]:
    """Of a loader that is never trained on; only those whose collectives are all still in the Flight Recorder."""
    if loader.optimizer_steps or not main.collectives:
        return []
    oldest = main.collectives[0]
    known = [one for one in phases_of(main, loader) if one.kind == VALIDATION]
    whole = [one for one in known if oldest.sequence <= 1 or oldest.at <= one.at]
    return [Evaluated(one, _until_training(main, one)) for one in whole]


def _until_training(main: Process, phase: Phase) -> list[Collective]:
    later = [one.at for one in main.phases if one.kind == TRAINING and one.at > phase.at]
    until = min(later, default=float("inf"))
    return [one for one in main.collectives if phase.at <= one.at < until]


def of_samples(one: Collective, batch: int | None, samples: int) -> bool:
    """Whether a gather holds one entry for each sample of a batch or of a share: then samples can be removed from it.

    Counts and other results that are already computed have fewer entries.
    """
    first = [size[0] if size else 1 for size in one.sizes]
    few = min(batch or samples, samples)
    return one.calls in OF_OBJECTS or any(count > 1 and (count >= few or count == samples % few) for count in first)


# A resumed training that skips what it was trained on before: no step is made, and nothing is wrong.
TOO_FEW = 3  # batches: too few to tell how long the rest will take


def passing_over(process: Process) -> list[Skipping]:
    """The skipping that goes on now."""
    return [one for one in process.skipping if not one.ended] if process.alive else []


def in_words(one: Skipping) -> str:
    """`skipping 120 of 400 batches that were trained before (accelerate.skip_first_batches), about 40 s left`."""
    of = f"{one.skipped:,} of {many(one.of, 'batch')}" if one.of else many(one.skipped, "batch")
    left = remaining(one)
    soon = f", about {duration(left)} left" if left is not None else ""
    return f"skipping {of} that were trained before ({one.who}){soon}"


def remaining(one: Skipping) -> float | None:
    """Seconds, at the same speed."""
    if not one.of or one.skipped < TOO_FEW or one.skipped >= one.of:
        return None
    return one.seconds / one.skipped * (one.of - one.skipped)
