"""Samples are counted twice in an evaluation, because the data does not divide evenly among the ranks.

## What it looks at
Passes that evaluate: how many samples their dataset has, among how many ranks a DistributedSampler or accelerate
divides them, and which collectives followed before training went on. A sum over the ranks (`all_reduce`), or a
gathering of what each rank has already worked out, holds the repeated samples; so does accelerate's `gather`.

## Why it happens
All ranks must get equally many samples, or they would wait for each other. So torch's DistributedSampler repeats some
at the end, and so does accelerate with `even_batches=True`, up to a full batch on every rank. In training that makes no
difference. In an evaluation these samples count twice: the result changes with the number of ranks.

## What to do
Evaluate with a sampler that repeats nothing, `sampler=range(rank, len(dataset), world_size)`, and sum up after the
loop. Or gather what was predicted for each sample and cut it to the dataset's length before anything is counted. With
accelerate, `gather_for_metrics` in place of `gather` does so.

## How sure it is
Certain of how many are repeated. That they are counted twice follows where results are summed over the ranks. Where
predictions are gathered one by one the repeated ones may have been taken out, and it keeps quiet; and so for training,
`drop_last=True`, `gather_for_metrics`, data that divides evenly, and less than one sample in a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...analysis.passes import Evaluated, each_once, evaluations, of_samples
from ...evidence.distributed import Collective, Prepared, Sampling
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many, percent, short
from ..rule import rule

SHARE = 0.001  # of the samples: results are quoted to a tenth of a per cent
DROPS = "gather_for_metrics"


class Padded(NamedTuple):
    """How many samples there are, how many of them are given out twice or more, and who sees to that."""

    samples: int
    ranks: int
    repeated: int
    by: str
    which: str
    accelerate: bool

    @property
    def matters(self) -> bool:
        return self.repeated > 0 and self.repeated >= SHARE * self.samples


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main in case.ranks for loader in main.loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    padded = _by_sampler(loader) or _by_accelerate(main, loader)
    if padded is None or not padded.matters or any(one.name == DROPS for one in main.spans):
        return None
    for one in evaluations(main, loader):
        counted = _counted(one, loader, padded)
        if counted:
            return _finding(case, main, loader, padded, one, counted)
    return None


def _by_sampler(loader: Loader) -> Padded | None:
    told = next((one for one in reversed(loader.sampling) if one.standard and one.dataset_length), None)
    if told is None or told.drop_last or told.replicas < 2:
        return None
    samples = told.dataset_length or 0
    repeated = told.samples * told.replicas - samples
    kind = told.kind.rpartition(".")[2]
    return Padded(samples, told.replicas, repeated, f"its {kind}", _which(told, samples, repeated), accelerate=False)


def _which(told: Sampling, samples: int, repeated: int) -> str:
    """It begins again at the beginning."""
    if told.shuffle:
        return f"the first {repeated:,} of its shuffled order" if repeated > 1 else "the first of its shuffled order"
    if repeated > samples:
        return "every sample"
    return "sample 0" if repeated == 1 else f"samples 0 to {repeated - 1}"


def _by_accelerate(main: Process, loader: Loader) -> Padded | None:
    told = next((one for one in reversed(main.prepared) if one.loader == loader.number), None)
    if told is None or told.after is None or told.processes < 2 or not _evens_out(told):
        return None
    samples, size, length = told.before.dataset_length, told.before.batch_size, told.after.length
    if not samples or not size or not length:
        return None
    repeated = length * size * (1 if told.split_batches else told.processes) - samples
    which = f"the first {many(repeated, 'sample')} of its order"
    return Padded(samples, told.processes, repeated, "accelerate (even_batches=True)", which, accelerate=True)


def _evens_out(told: Prepared) -> bool:
    after = told.after
    evens = told.even_batches if after is None or after.even_batches is None else after.even_batches
    return bool(evens) and after is not None and bool(after.shards) and not after.drop_last


def _counted(one: Evaluated, loader: Loader, padded: Padded) -> list[Collective]:
    """What put the results of the ranks together, with the repeated samples in it."""
    share = -(-padded.samples // padded.ranks)
    one_by_one = [each for each in one.gathers if of_samples(each, loader.batch_size, share)]
    if padded.accelerate:
        return one.sums + one.gathers
    return [] if one_by_one else one.sums + one.gathers


def _finding(
    case: Case, main: Process, loader: Loader, padded: Padded, one: Evaluated, counted: list[Collective]
) -> Finding:
    total = padded.samples + padded.repeated
    line = next((each.where for each in counted if is_users(each.where)), None)
    return case.finding(
        main,
        rank=None,  # it is so on all of them
        pid=None,
        cause=f"The evaluation counts {total:,} samples where there are {padded.samples:,}: they do not divide evenly "
        f"among {padded.ranks} ranks, so {padded.by} gives {_out(padded)} of {loader.name} out twice.",
        seen=list(_seen(padded, one, counted)),
        remedy=_remedy(main, loader, padded, one, counted),
        onset_s=one.phase.at,
        where=line or loader.created,
        subject=Subject("loader", loader.name),
    )


def _out(padded: Padded) -> str:
    return "one" if padded.repeated == 1 else f"{padded.repeated:,}"


def _seen(padded: Padded, one: Evaluated, counted: list[Collective]) -> Iterator[str]:
    total = padded.samples + padded.repeated
    each = f", {total // padded.ranks:,} for each rank" if total % padded.ranks == 0 else ""
    yield f"{padded.samples:,} samples, {padded.ranks} ranks: {total:,} are given out{each}"
    yield f"given out twice: {padded.which}; they make up {percent(padded.repeated / total)} of the result"
    line = next((place.where for place in counted if is_users(place.where)), None)
    spot = f" at {short(line)}" if line is not None else ""
    number = one.phase.number_of_pass
    yield f"after pass {number} over it, {counted[0].operation}{spot} puts the results of all ranks together"


def _remedy(main: Process, loader: Loader, padded: Padded, one: Evaluated, counted: list[Collective]) -> Remedy:
    if padded.accelerate:
        return Remedy(
            "Gather predictions and labels with `accelerator.gather_for_metrics((predictions, labels))` in place of "
            f"`gather` or `reduce`: that takes {many(padded.repeated, 'repeated sample')} out of the last batch."
        )
    created = f" ({short(loader.created)})" if is_users(loader.created) else ""
    text = (
        f"Let the evaluation loader{created} repeat nothing: `DataLoader(…, sampler=range(rank, len(dataset), "
        f"{padded.ranks}))`, where rank is torch.distributed.get_rank(). Ranks then have one sample more or less"
    )
    inside = len(counted) >= max(one.phase.batches, 2)
    text += (
        ", so sum up on each rank first and call all_reduce once, after the loop."
        if inside
        else ": no collective may stand inside the loop."
    )
    if any(each.kind == "DistributedDataParallel" for each in main.wrapped):
        text += " For the same reason evaluate with model.module, not with the DistributedDataParallel around it."
    return Remedy(text)
