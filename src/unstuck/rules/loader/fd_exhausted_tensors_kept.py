"""Tensors that workers sent are kept, and each holds a file descriptor, until the limit is reached.

## It means
A tensor comes from a worker as a piece of shared memory with a file descriptor. The descriptor stays open as long as
anything refers to the tensor: a list of batches or of targets, also a view of the tensor or its `.numpy()`. The usual
limit is 1,024 per process. Batches of hundreds of small tensors do the same without anything being kept, because each
tensor needs a descriptor on its way.

## Fix
Keep copies: they lie in ordinary memory.
```python
# before
targets.append(batch["target"])
# after
targets.append(batch["target"].clone())  # or .tolist(), or .numpy().copy()
```
Send few large tensors rather than many small ones:
```python
def collate(samples):
    return {"points": torch.cat(samples), "lengths": torch.tensor([len(one) for one in samples])}
```
A higher limit only delays the crash, unless nothing is kept:
```sh
ulimit -n "$(ulimit -Hn)"
```
torch's message advises `torch.multiprocessing.set_sharing_strategy("file_system")`. It needs no descriptor for each
tensor, but a file in /dev/shm, and may leave it there if the run is killed. Kept tensors fill /dev/shm all the same.

## Check it yourself
Count the descriptors of the main process while it trains. A count that grows with every step is a leak:
```sh
ls "/proc/$MAIN_PID/fd" | wc -l
ls -l "/proc/$MAIN_PID/fd" | grep -c /dev/shm/torch_
grep "open files" "/proc/$MAIN_PID/limits"
```

## Not this, if
- the descriptors are open files, sockets or pipes of a worker: [fd-leak-in-dataset](fd-leak-in-dataset.md)
- the message is "Cannot allocate memory" with free memory: [max-map-count](max-map-count.md)
- /dev/shm is full: [shm-exhausted](shm-exhausted.md)
- batches of many tensors are only slow: [many-small-tensors](many-small-tensors.md)

## How sure
Judged from the exception with which descriptors ran out, in the process that had none left, and from what its
descriptors were at that moment: most are shared memory. Then from how many batches had come, and of how many tensors
one consists. Certain that the descriptors were spent on shared memory: they were counted when there were none left.
Which variable holds the tensors is not known. Where no more batches had come than can be on their way at once, it does
not say that they are kept.

## Seen in
- https://github.com/pytorch/pytorch/issues/11201: one integer tensor of every batch kept in a list, and the process ran
  out of descriptors.
- https://github.com/pytorch/pytorch/issues/973: "received 0 items of ancdata", with lists of open /dev/shm files.
- https://github.com/pytorch/pytorch/issues/41465: `.numpy()` of a batch appended to a list.
- https://github.com/pytorch/pytorch/pull/34768: how the message "Too many open files. Communication with the workers is
  no longer possible" came about.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import SHARED, Raised, listed, over_time, ran_out, spent_on
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...wording.text import duration, many, said, who
from ..rule import Level, rule

TEXTS = (
    "Too many open files. Communication with the workers is no longer possible",
    "received 0 items of ancdata",
    "[Errno 24] Too many open files",
    "unable to open shared memory object",
)
RAISE = 'ulimit -n "$(ulimit -Hn)"'
KEPT, ON_THEIR_WAY, OWN = "kept", "on their way", "own"
OTHERS = 64  # further descriptors of a training: queues, files, libraries


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in ran_out(case) if spent_on(one.failure) == SHARED][:1]:
        tensors = _tensors(case, one)
        why = _why(one, tensors)
        fix, *others = _ways(one, tensors, why)
        yield case.finding(
            one.process,
            cause=_cause(one, tensors, why),
            seen=list(_seen(case, one, tensors)),
            remedy=fix,
            alternatives=others,
            saw=said(one.failure).partition(". ")[0],
            onset_s=one.failure.at,
            where=_loop(one) or (one.loader.created if one.loader is not None else None),
            subject=Subject("loader", one.loader.name) if one.loader is not None else None,
        )


def _loop(one: Raised) -> Place | None:
    """Where the main process waits for the next batch."""
    place = user_line(one.main.failure) if one.main.failure is not None else None
    return place if is_users(place) else None


def _tensors(case: Case, one: Raised) -> int:
    """Of how many tensors a batch consists; 0: it is not known."""
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
    if why == KEPT:
        what = f"{many(_shared(one), 'batch tensor')} are still referenced, and each holds one"
    elif why == OWN:
        what = f"{many(_shared(one), 'tensor')} in shared memory hold one each"
    else:
        each = f"each of the {tensors:,} tensors" if tensors else "every tensor"
        what = f"{each} of a batch needs one on its way"
    return f"Out of file descriptors: {what} (limit {one.failure.descriptor_limit:,})."


def _seen(case: Case, one: Raised, tensors: int) -> Iterator[str]:
    yield f"open in {who(one.process)} at that moment: {listed(one.failure)}"
    loader = one.loader
    if loader is not None and loader.batches:
        each = f" of {many(tensors, 'tensor')} each" if tensors else ""
        yield f"{many(loader.batches, 'batch')}{each} had arrived"
    if one.main.failure is None:
        yield "the batch was dropped, and the loop waits for it"
    seen = over_time(case, one.process)
    if len(seen) > 1 and seen[-1][1] >= _shared(one):
        yield f"{seen[0][1]:,} descriptors after {duration(seen[0][0])}, {seen[-1][1]:,} after {duration(seen[-1][0])}"
    if loader is not None:
        yield f"loader: {loader.name}"


def _ways(one: Raised, tensors: int, why: str) -> list[Remedy]:
    """The fix, and other ways out."""
    if why == OWN:
        return [
            Remedy("Share a few large tensors and slice them: every storage needs a descriptor, not every tensor."),
            Remedy("Raise the limit", [RAISE]),
        ]
    if why == ON_THEIR_WAY:
        return [
            Remedy("Put the small tensors of a batch into a few large ones in collate_fn", code=["torch.cat(tensors)"]),
            Remedy(f"Raise the limit{_needed(one, tensors)}", [RAISE]),
            Remedy("Lower prefetch_factor: fewer batches are on their way at once."),
        ]
    rate = _shared(one) / one.loader.batches if one.loader is not None and one.loader.batches else 0.0
    stays = f", as {rate:.3g} more stay open with every batch" if rate else ""
    return [
        Remedy("Find what keeps tensors of batches, and keep copies", code=["kept.append(x.clone())  # or x.tolist()"]),
        Remedy(f"Raise the limit; it only delays the crash{stays}", [RAISE]),
        Remedy(
            "Follow torch's own advice, if files that a killed run leaves in /dev/shm are acceptable",
            code=['torch.multiprocessing.set_sharing_strategy("file_system")'],
        ),
    ]


def _needed(one: Raised, tensors: int) -> str:
    """A process has those of all waiting batches, and of the current one, open at the same time."""
    if not tensors or one.loader is None:
        return ""
    return f" ({tensors * (_waiting(one.loader) + 2) + OTHERS:,} suffice)"
