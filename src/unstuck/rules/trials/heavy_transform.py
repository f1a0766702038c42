"""Making a sample takes so much computing that the loader cannot be fast, whatever its settings are.

## What it looks at
The benchmark of `unstuck doctor`: the loader as it is against the same loader with its samples in memory. A sample
loaded by one thread: the processor time that it takes, and in which function most of it is spent. The size of a sample,
and how many processors there are.

## Why it happens
Work in plain Python where a library would do it at once, decoding of far more than is used, augmentation at full size
before the crop, a library that was built without its fast path, the same preparation again in every epoch.

## What to do
Begin in the function that is named: do it once beforehand and store the result, do it on smaller data, on whole arrays,
or on the GPU after the batch. More workers help only as long as there are processors.

## How sure it is
Certain of the seconds. Without --step-ms nobody knows how fast is fast enough. It speaks where loading is computing for
70 % or more, one function has half of it, and a sample takes 20 ms of a processor or more, and 40 ns or more for each
byte of it: decoding a JPEG takes 5 to 20 ns a byte, numpy on whole arrays 1 to 10, plain Python 50 and more. With
--step-ms it speaks exactly where the loader is slower than the training.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import COMPUTING, WORKERS, Differences, Measured, Trial
from ...wording.printable import quoted
from ...wording.text import duration, many, percent, short, size
from ..rule import Level, rule
from ._rungs import as_it_is, feeds, loader_of, sample_size

HEAVY = 0.02  # seconds of a processor for a sample: decoding and augmenting a photograph takes 5 to 15 ms
DENSE = 40e-9  # seconds for a byte: a large volume may take long and yet be read as fast as can be
A_BYTE_COUNTS = 1024  # bytes of a sample: of a label alone, seconds for a byte say nothing
DOMINATES = 0.5  # of loading in one function: else there is no one place to begin at


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("trial",),
    level=Level.GENERAL,
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    trial = case.trial
    facts = trial.differences if trial is not None else None
    if trial is None or facts is None or trial.limit not in (COMPUTING, WORKERS) or not _is_heavy(trial, facts):
        return
    own = as_it_is(trial.measured)
    yield case.finding(
        cause=_cause(trial, facts, own),
        seen=[*trial.limit_seen, *_seen(trial, facts, own)],
        remedy=_remedy(trial, facts, own),
        where=facts.where,
        subject=Subject("stage", facts.function or "sample"),
    )


def _is_heavy(trial: Trial, facts: Differences) -> bool:
    if facts.step is not None:
        return not feeds(trial, facts.step)
    dense = facts.cpu >= DENSE * max(sample_size(trial), facts.asked)
    return facts.cpu >= HEAVY and dense and facts.share >= DOMINATES


def _stage(facts: Differences) -> str:
    at = f" ({short(facts.where)})" if facts.where is not None else ""
    return f"{facts.function}{at}" if facts.function else "the dataset"


def _cause(trial: Trial, facts: Differences, own: Measured | None) -> str:
    dataset = loader_of(trial).dataset or "the dataset"
    gives = f", so {many(own.workers, 'worker')} give {own.rate:,.3g} samples a second" if own is not None else ""
    needs = ""
    if facts.step is not None and own is not None:
        batch = loader_of(trial).batch_size or 1
        needs = f"; a step of {duration(facts.step)} needs {batch / facts.step:,.3g}"
    return (
        f"A sample of {dataset} takes {duration(facts.cpu)} of computing, {percent(facts.share)} of loading in "
        f"{_stage(facts)}{gives}{needs}."
    )


def _seen(trial: Trial, facts: Differences, own: Measured | None) -> Iterator[str]:
    taken = sample_size(trial)
    if taken >= A_BYTE_COUNTS:
        yield f"a sample has {size(taken)}: {facts.cpu / taken * 1e9:,.3g} ns of computing for each byte"
    workers = own.workers if own is not None else 0
    yield f"{many(workers, 'worker')} on {facts.processors:g} processors"


def _remedy(trial: Trial, facts: Differences, own: Measured | None) -> Remedy:
    workers = own.workers if own is not None else 0
    free = int(facts.processors) - max(workers, 1)
    more = (
        f"Up to num_workers={int(facts.processors)} can compute at once here. "
        if free >= 1
        else f"More workers would not help: there are {facts.processors:g} processors. "
    )
    command = f"unstuck tune {quoted(trial.target.name)}" if trial.target is not None and free >= 1 else ""
    text = (
        f"{more}Begin in {_stage(facts)}: do it once beforehand and store the result, on whole arrays instead of "
        "element by element, on smaller data, or on the GPU after the batch."
    )
    return Remedy(text, [command] if command else [])
