"""Passes over loaders with a distributed sampler: which train, which evaluate, and what puts their results together."""

from __future__ import annotations

from typing import NamedTuple

from .distributed import Collective, Phase, Sampling
from .epochs import TRAINING, VALIDATION
from .recorded import Loader, Process

SUMS = ("all_reduce", "reduce", "reduce_scatter")
GATHERS = ("all_gather", "gather", "all_gather_into_tensor", "_all_gather_base")
OF_OBJECTS = ("all_gather_object", "gather_object")


def phases_of(main: Process, loader: Loader) -> list[Phase]:
    """What each pass over a loader was, as far as it is known."""
    return [one for one in main.phases if one.loader == loader.number and one.number_of_pass is not None]


def trained_passes(main: Process, loader: Loader) -> set[int]:
    """In which an optimizer took a step. Of those too long ago to know: in which a trained loader came to its end."""
    known = {one.number_of_pass or 0: one.steps for one in phases_of(main, loader)}
    ended = {one.number for one in loader.ended if one.number not in known} if loader.optimizer_steps else set()
    return ended | {number for number, steps in known.items() if steps > 0}


def made_anew(main: Process) -> list[list[Loader]]:
    """Loaders that are one to their user: made at the same line, over one dataset, gone through one after the other."""
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
    """Before the other begins. Two loaders that take turns, as to train and to validate, are two."""
    return one.ended is not None and one.ended <= other.at


def order(one: Sampling) -> tuple[int, int, int | None]:
    """What torch's sampler makes its order of. Equal ones give the same samples in the same order."""
    return one.dataset, (one.seed or 0) + (one.epoch or 0), one.dataset_length


class Evaluated(NamedTuple):
    """A pass that evaluated, and the collectives between its beginning and the next training."""

    phase: Phase
    collectives: list[Collective]

    @property
    def sums(self) -> list[Collective]:
        return [one for one in self.collectives if one.operation in SUMS and one.calls != "backward"]

    @property
    def gathers(self) -> list[Collective]:
        return [one for one in self.collectives if one.operation in GATHERS]


def evaluations(main: Process, loader: Loader) -> list[Evaluated]:
    """Of a loader that is never trained on. Only those of which the Flight Recorder still has all."""
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
    """Whether a gather holds one entry for each sample of a batch or of a share: from that, samples can be taken out.

    Counts and other results that are worked out already have fewer entries.
    """
    first = [size[0] if size else 1 for size in one.sizes]
    few = min(batch or samples, samples)
    return one.calls in OF_OBJECTS or any(count > 1 and (count >= few or count == samples % few) for count in first)
