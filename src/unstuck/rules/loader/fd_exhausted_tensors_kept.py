"""Tensors that workers sent are kept, and each keeps a descriptor open until there are none left.

## What it looks at
The exception with which descriptors ran out, in the process that had none left, and what its descriptors were at that
moment: most are shared memory. Then how many batches had come, and of how many tensors one consists.

## Why it happens
A tensor comes from a worker as a piece of shared memory with a descriptor. It stays open as long as anything refers to
the tensor: a list of batches or of targets, also a view or the `.numpy()` of one. The usual limit is 1,024. Batches of
hundreds of small tensors do the same with nothing being kept: each tensor needs a descriptor on its way.

## What to do
Keep copies (`tensor.clone()`, `.numpy().copy()`, `.tolist()`): they lie in ordinary memory. Send few large tensors
rather than many small ones. A higher limit puts the end off. The `file_system` sharing strategy needs no descriptor for
each tensor, but a file in /dev/shm, and leaves it there if the run is killed.

## How sure it is
Sure that the descriptors were spent on shared memory: they were counted when there were none left. Which variable holds
the tensors is not known. Where no more batches had come than can be on their way at once, it does not say "kept".
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import SHARED, Raised, listed, over_time, ran_out, spent_on
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...wording.text import duration, many, said, short, who
from ..rule import Level, rule

RAISE = "ulimit -n $(ulimit -Hn)"
KEPT, ON_THEIR_WAY, OWN = "kept", "on their way", "own"
OTHERS = 64  # descriptors that a training has besides: queues, files, libraries


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in ran_out(case) if spent_on(one.failure) == SHARED][:1]:
        tensors = _tensors(case, one)
        why = _why(one, tensors)
        yield case.finding(
            one.process,
            cause=_cause(one, tensors, why),
            seen=list(_seen(case, one, tensors)),
            remedy=_remedy(one, tensors, why),
            onset_s=one.failure.at,
            where=_loop(one) or (one.loader.created if one.loader is not None else None),
            subject=Subject("loader", one.loader.name) if one.loader is not None else None,
        )


def _loop(one: Raised) -> Place | None:
    """Where the main process waits for the next batch."""
    place = user_line(one.main.failure) if one.main.failure is not None else None
    return place if is_users(place) else None


def _tensors(case: Case, one: Raised) -> int:
    """Of how many tensors a batch consists; 0: nobody looked."""
    workers = [worker for loader in one.main.loaders for worker in case.workers_of(one.main, loader)]
    handed = [batch.tensors for worker in workers for fetching in worker.fetching for batch in fetching.handed]
    return max(handed, default=0)


def _why(one: Raised, tensors: int) -> str:
    """More tensors than can be on their way at once are kept; more than have come at all were not sent by workers.

    A worker keeps none of what it sends: it only waits until the tensors are taken.
    """
    sent = sum(loader.batches for loader in one.main.loaders if loader.num_workers)
    at_once = _waiting(one.loader) + 1 if one.loader is not None else 1
    if one.process is not one.main:
        return ON_THEIR_WAY
    if not any(loader.pids for loader in one.main.loaders) or (tensors and _shared(one) > (sent + at_once) * tensors):
        return OWN
    kept = _shared(one) > at_once * tensors if tensors else sent > at_once
    return KEPT if kept else ON_THEIR_WAY


def _waiting(loader: Loader) -> int:
    return loader.num_workers * (loader.prefetch_factor or 2)


def _shared(one: Raised) -> int:
    return one.failure.descriptors.get(SHARED, 0)


def _cause(one: Raised, tensors: int, why: str) -> str:
    limit = f"{one.failure.descriptor_limit:,} descriptors"
    if why != ON_THEIR_WAY:
        after = f" after {many(one.loader.batches, 'batch')}" if one.loader is not None and one.loader.batches else ""
        whose = "that workers have sent" if why == KEPT else "in shared memory"
        return (
            f"{who(one.process).capitalize()} keeps {many(_shared(one), 'tensor')} {whose}, and each keeps a "
            f"descriptor open: its {limit} are used up{after}."
        )
    consists = f"{many(tensors, 'tensor')} a batch" if tensors else "so many tensors a batch"
    return (
        f"{who(one.process).capitalize()} has used up its {limit} on tensors that are on their way from worker to "
        f"loop, {consists}: each needs one."
    )


def _seen(case: Case, one: Raised, tensors: int) -> Iterator[str]:
    yield f"{said(one.failure).partition('. ')[0]}, in {who(one.process)}"
    yield f"open at that moment: {listed(one.failure)}"
    loader = one.loader
    if loader is not None and loader.batches:
        each = f", of {many(tensors, 'tensor')} each" if tensors else ""
        yield f"{many(loader.batches, 'batch')} had come from {loader.name}{each}"
    if one.main.failure is None:
        yield "the batch was dropped, and the loop waits for it"
    seen = over_time(case, one.process)
    if len(seen) > 1 and seen[-1][1] >= _shared(one):
        yield f"{seen[0][1]:,} descriptors after {duration(seen[0][0])}, {seen[-1][1]:,} after {duration(seen[-1][0])}"


def _remedy(one: Raised, tensors: int, why: str) -> Remedy:
    if why == OWN:
        return Remedy(
            "Put what is shared (share_memory_(), tensors in a queue) into a few large tensors and take slices of "
            "them: a descriptor is needed for each storage, not for each tensor. Or raise the limit.",
            [RAISE],
        )
    if why == ON_THEIR_WAY:
        return Remedy(
            "Have collate_fn put the small tensors of a batch into a few large ones (torch.cat, and the lengths), "
            f"lower prefetch_factor, or raise the limit{_needed(one, tensors)}.",
            [RAISE],
        )
    rate = _shared(one) / one.loader.batches if one.loader is not None and one.loader.batches else 0.0
    stays = f": {rate:.3g} descriptors stay open with every batch" if rate else ""
    where = f" in the loop at {short(_loop(one))}" if _loop(one) is not None else ""
    return Remedy(
        f"Find what keeps batches{where}, and keep copies instead: x.clone(), x.tolist(), x.numpy().copy(). Raising "
        f"the limit puts the end off{stays}.",
        [RAISE],
    )


def _needed(one: Raised, tensors: int) -> str:
    """A process has those of the batches that wait, and of the one at hand, open at the same time."""
    if not tensors or one.loader is None:
        return ""
    return f": {tensors * (_waiting(one.loader) + 2) + OTHERS:,} suffice"
