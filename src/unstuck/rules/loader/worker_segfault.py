"""Native code crashed a DataLoader worker.

## It means
A library written in C, C++ or Rust did something that the CPU or the kernel forbids: a decoder that trusts a damaged
file, a handle (LMDB, HDF5, a database, a video reader) that was opened before the fork and is used by all workers at
once, a mapped file that was truncated in the meantime, a wheel built for another CPU. torch names the signal but
neither the line nor the sample.

## Fix
Load the same sample in the main process. If it crashes there too, it is the data or the library: update it, or remove
the sample. If it does not, it is what the workers share: open such handles in the worker, at first use.
```python
# before
class Rows(Dataset):
    def __init__(self, path):
        self.env = lmdb.open(path, readonly=True)


# after
class Rows(Dataset):
    def __init__(self, path):
        self.path, self.env = path, None

    def __getitem__(self, index):
        if self.env is None:
            self.env = lmdb.open(self.path, readonly=True, lock=False)
        ...
```

## Check it yourself
Run without workers and with the fault handler on: Python then prints the line that called the native code.
```sh
PYTHONFAULTHANDLER=1 python train.py  # with num_workers=0
```
In a worker the variable alone prints nothing, because torch's own signal handler replaces it. Turn it on late:
```python
def show_crashes(worker_id):
    faulthandler.enable()

loader = DataLoader(dataset, num_workers=4, worker_init_fn=show_crashes)
```

## Not this, if
- it is SIGBUS and `/dev/shm` is full: [shm-exhausted](shm-exhausted.md)
- it is SIGKILL: [worker-oom-killed](worker-oom-killed.md), [worker-killed](worker-killed.md)
- the worker exited with a code: [worker-exited-silently](worker-exited-silently.md)

## How sure
Judged from the exit status of every worker: SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP or SIGSYS, which a
process causes itself; then from the Python stack that the worker wrote down in its last moment, and the sample that it
was at. Certain of the signal, and of the line wherever the worker could still write its stack: it is the Python line
that called the native code, not the line in that code. What is wrong in there is not known.

## Seen in
- https://github.com/facebookresearch/pycls/issues/146: "Unexpected segmentation fault encountered in worker" while
  training.
- https://github.com/hpcaitech/Open-Sora/issues/370: the same in a training on videos.
- https://github.com/huggingface/pytorch-image-models/issues/1269: after a week of training without a change.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.failures import Death, worker_deaths
from ...analysis.shared_memory import is_explained
from ...analysis.torch_errors import with_setting
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import FetchState
from ...wording.settings import settings
from ...wording.text import duration, line, many, short, signal_name, who
from ..rule import rule

TEXTS = (
    "ERROR: Unexpected segmentation fault encountered in worker.",
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
    "ERROR: Unexpected floating-point exception encountered in worker.",
    "is killed by signal: Segmentation fault",
    "is killed by signal: Aborted",
    "is killed by signal: Bus error",
)

SIGBUS, SIGABRT = -7, -6
MEANING = {
    -11: "native code accessed memory that is not its own",
    SIGBUS: "it accessed a mapped part of a file that does not exist",
    SIGABRT: "native code called abort",
    -4: "an instruction that this CPU does not know",
    -8: "native code divided an integer by zero",
    -5: "native code hit a trap",
    -31: "it made a system call that is forbidden here",
}
FORKED = "fork"
AGAIN = "PYTHONFAULTHANDLER=1"
UPDATE = Remedy("Update the library, or remove the sample, if it crashes in the main process, too.")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "exits"))
def check(case: Case) -> Iterator[Finding]:
    crashed = [one for one in worker_deaths(case) if one.seen.status in MEANING and not is_explained(case, one)]
    for death in crashed[:1]:
        place = _place(death)
        spot = f" at {short(place)}" if place is not None else ""
        yield case.finding(
            death.worker,
            cause=f"DataLoader {who(death.worker)} crashed ({signal_name(death.seen.status)}){_sample(death)}{spot}.",
            seen=[
                f"{signal_name(death.seen.status)}: {MEANING[death.seen.status]}",
                *_seen(death),
                *_more(crashed[1:]),
            ],
            remedy=_remedy(case, death),
            alternatives=_alternatives(death),
            onset_s=death.seen.at,
            where=place or death.loader.created,
            subject=None if _index(death) is None else Subject("sample", str(_index(death))),
        )


def _place(death: Death) -> Place | None:
    """The innermost line that is the user's own; the innermost of all if none is."""
    crash = death.worker.crash
    return next((one for one in reversed(crash) if is_users(one)), crash[-1] if crash else None)


def _index(death: Death) -> int | str | None:
    return death.fetching.index if death.fetching is not None else None


def _sample(death: Death) -> str:
    if death.fetching is None or death.fetching.now not in (
        FetchState.LOADING,
        FetchState.COLLATING,
        FetchState.FETCHING,
    ):
        return ""
    if death.fetching.now == FetchState.COLLATING:
        return " while collating a batch"
    return f" on sample {_index(death)}" if _index(death) is not None else " while fetching a batch"


def _seen(death: Death) -> Iterator[str]:
    place, crash = _place(death), death.worker.crash
    if place is not None:
        called = f", which had called {crash[-1].function} ({line(crash[-1])})" if crash[-1] != place else ""
        yield f"its last Python stack: {place.function}{called}"
    before = many(death.fetching.samples, "sample") if death.fetching is not None else ""
    earlier = f"; it had loaded {before} before" if death.fetching is not None and death.fetching.samples else ""
    yield f"it crashed after {duration(death.seen.at)}{earlier}"
    yield from (f"in the stage {one.name}" + (f" of {one.item}" if one.item else "") for one in death.worker.stages_now)
    yield f"loader: {death.loader.name}"


def _more(others: list[Death]) -> Iterator[str]:
    if others:
        samples = [str(_index(one)) for one in others if _index(one) is not None]
        at = f", on sample {', '.join(samples[:4])}" if samples else ""
        yield f"{many(len(others), 'more worker')} crashed after it{at}"


def _indexed(death: Death) -> bool:
    return _index(death) is not None and not death.loader.iterable


def _remedy(case: Case, death: Death) -> Remedy:
    if _indexed(death):
        text = "Load this sample in the main process: if it crashes there, the sample or the library is at fault"
        return Remedy(text, code=["faulthandler.enable()", f"dataset[{_index(death)!r}]"])
    text = "Run it without workers: the fault handler then prints the line that crashes"
    return Remedy(text, [with_setting(case, AGAIN)], code=[settings(death.loader, num_workers=0)])


def _alternatives(death: Death) -> list[Remedy]:
    return [way for way in (_of_signal(death), _of_workers(death), UPDATE) if way is not None]


def _of_signal(death: Death) -> Remedy | None:
    if death.seen.status == SIGABRT:
        return Remedy("Read stderr above the traceback: what aborts mostly says why.")
    if death.seen.status == SIGBUS:
        return Remedy(
            "Compare the size of the mapped file with what it should be; nothing may rewrite it during the run."
        )
    return None


def _of_workers(death: Death) -> Remedy | None:
    """Where the main process loads the same sample well."""
    if death.loader.context in (None, FORKED):
        return Remedy("If only workers crash: open handles (LMDB, HDF5, video) in each worker, not before the fork.")
    if _indexed(death):
        whole = "If this sample alone loads, it depends on what came before: run the whole loader without workers"
        return Remedy(whole, code=[settings(death.loader, num_workers=0)])
    return None
