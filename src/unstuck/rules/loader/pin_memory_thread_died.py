"""The thread that pins batches crashed, and the loop is told only that it exited.

## It means
With `pin_memory=True` a thread of the main process takes the batches from the workers and copies them into pinned
memory. What goes wrong there ends the thread: a batch that cannot be unpickled in the main process, a connection to a
worker that broke, descriptors or mappings that ran out, a device that cannot be used. The loop sees none of it: the
traceback of the thread is higher up in the output.

## Fix
Look at the thread's exception, not at the loop's. With `pin_memory=False` the loop takes the batches itself and raises
the same exception where it can be debugged. Then fix what it says.
```python
loader = DataLoader(dataset, num_workers=2, pin_memory=False)
```
A class whose `__getattr__` reads an attribute of its own is a usual cause: while it is unpickled it has no attributes.
```python
# before
def __getattr__(self, name):
    return self.fields[name]  # asks for self.fields, which is not there yet: RecursionError


# after
def __getattr__(self, name):
    if name.startswith("__") or name == "fields":
        raise AttributeError(name)
    return self.fields[name]
```

## Check it yourself
```python
import pickle

batch = loader.collate_fn([dataset[index] for index in range(loader.batch_size)])
pickle.loads(pickle.dumps(batch))
```

## Not this, if
- a worker was killed before, and the thread only met the broken connection: [worker-killed](worker-killed.md),
  [worker-oom-killed](worker-oom-killed.md)
- the batch could not be pickled in the worker: [batch-not-picklable](batch-not-picklable.md)
- the thread ran out of descriptors or mappings: [fd-exhausted-tensors-kept](fd-exhausted-tensors-kept.md),
  [max-map-count](max-map-count.md)

## How sure
Judged from torch's "Pin memory thread exited unexpectedly" in the main process, from the exception by which the thread
itself ended, kept from the moment it happened, and from whether a worker was killed at that time. Not tried on a GPU:
torch's thread was run with the accelerator's answers replaced. Sure of the thread's exception where it is quoted. Where
a worker was killed by a signal it stays silent, because that explains more. In old versions of torch (1.7) the thread
also died at the second epoch with `persistent_workers=True`.

## Seen in
- https://github.com/open-mmlab/mmpretrain/issues/472: "not enough values to unpack" in the thread at the second epoch,
  with persistent workers and torch 1.7.
- https://github.com/open-mmlab/mmpretrain/issues/392: the same; no error with `pin_memory=False`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import BROKEN, PIN_THREAD_DIED, ended_by, pinning
from ...analysis.torch_errors import again, late, warned
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Failure, Process
from ...wording.settings import settings
from ...wording.text import line, many, said, short
from ..rule import Level, rule

TEXTS = (
    "Pin memory thread exited unexpectedly",
    "ValueError: not enough values to unpack (expected 2, got 0)",
)

NOTHING_CAME = "not enough values to unpack"  # an empty answer of a persistent worker: torch 1.7


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        final = ended_by(main)
        if final is None or PIN_THREAD_DIED not in final.message or _killed(case, final):
            continue
        thread = next((one for one in main.failures if pinning(one)), None)
        loader = next((one for one in main.loaders if one.pin_memory and one.batches), None) or main.newest_loader
        yield case.finding(
            main,
            cause=_cause(main, thread),
            seen=list(_seen(thread, loader)),
            remedy=_remedy(case, thread, loader),
            alternatives=_others(thread, loader),
            onset_s=(thread or final).at,
            where=user_line(thread or final),
            subject=Subject("loader", loader.name) if loader is not None else None,
        )
        return


def _killed(case: Case, final: Failure) -> bool:
    """A worker was killed before its main process ended: afterwards they all are."""
    return any(seen.at <= final.at for seen, _ in case.abnormal_worker_exits)


def _cause(main: Process, thread: Failure | None) -> str:
    whose = "" if main.rank is None else f" of rank {main.rank}"
    if thread is None:
        return f"The pin-memory thread{whose} crashed; its own traceback is above, in the output of the training."
    place = user_line(thread)
    if is_users(place):  # torch's own part of the thread calls nothing of the user's but what unpickles a batch
        return f"The pin-memory thread{whose} crashed while unpickling a batch: {thread.type} in {short(place)}."
    return f"The pin-memory thread{whose} crashed while receiving a batch from a worker: {thread.type}."


def _seen(thread: Failure | None, loader: Loader | None) -> Iterator[str]:
    if thread is not None:
        last, own = thread.frames[-1], user_line(thread)
        yield f"in {thread.thread or 'the thread'}: {said(thread, 200)}"
        yield from warned(thread)
        yield f"raised in {last.function} ({line(last)})" + (
            f", called from {own.function} ({line(own)})" if own is not None and is_users(own) and own != last else ""
        )
    if loader is not None:
        persistent = " and persistent_workers=True" if loader.persistent_workers else ""
        received = many(loader.batches, "batch") if loader.batches else "no batch"
        yield f"{received} had been received from {loader.name}, with pin_memory=True{persistent}"


def _remedy(case: Case, thread: Failure | None, loader: Loader | None) -> Remedy:
    error = late(thread)
    if error is not None:
        return again(case, error)  # the thread was only the first to be told
    if thread is not None and is_users(user_line(thread)):
        return Remedy(
            f"Fix {short(user_line(thread))}: the batch cannot be unpickled in the main process",
            code=["pickle.loads(pickle.dumps(batch))  # shows it without a loader"],
        )
    if thread is not None and _is_old_mistake(thread, loader):
        return Remedy("Upgrade torch: this was a bug of version 1.7.")
    if thread is not None and thread.type in BROKEN:
        return Remedy("Find why a worker ended or closed its connection early: its own error is above, in the output.")
    return _visible(loader)


def _others(thread: Failure | None, loader: Loader | None) -> list[Remedy]:
    if thread is None or late(thread) is not None:
        return []
    if not is_users(user_line(thread)) and _is_old_mistake(thread, loader):
        return [Remedy("Until then, do not keep the workers", code=[settings(loader, persistent_workers=False)])]
    return [_visible(loader)] if is_users(user_line(thread)) or thread.type in BROKEN else []


def _visible(loader: Loader | None) -> Remedy:
    text = "Load without pinning, to debug: the same error is then raised in the loop itself"
    return Remedy(text, code=[settings(loader, pin_memory=False)])


def _is_old_mistake(thread: Failure, loader: Loader | None) -> bool:
    return NOTHING_CAME in thread.message and loader is not None and loader.persistent_workers
