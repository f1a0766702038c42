"""Native code crashed a DataLoader worker.

## What it looks at
The exit status of every worker: SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP or SIGSYS, which a process brings
upon itself. Then the Python stack that the worker wrote down in its last moment, and the sample it was at.

## Why it happens
A library written in C, C++ or Rust did something that the processor or the kernel forbids: a decoder that trusts a
damaged file, a handle (LMDB, HDF5, a database, a video reader) that was opened before the fork and is used by all
workers at once, a mapped file that was cut short meanwhile, a wheel built for another processor. torch names the signal
but neither the line nor the sample.

## What to do
Load the same sample in the main process. If it crashes there too, it is the data or the library: update it, or leave
the sample out. If it does not, it is what the workers share: open such handles in the worker, at first use.

## How sure it is
Certain of the signal, and of the line wherever the worker could still write its stack: it is the Python line that
called the native code, not the line in that code. What is wrong in there is not known. A SIGBUS while /dev/shm is full
is `shm-exhausted`, and a SIGKILL is `worker-oom-killed` or `worker-killed`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.failures import Death, worker_deaths
from ...analysis.shared_memory import is_explained
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import FetchState
from ...wording.text import duration, line, many, short, signal_name, who
from ..rule import rule

SIGBUS, SIGABRT = -7, -6
MEANING = {
    -11: "native code touched memory that is not its own",
    SIGBUS: "it touched memory that stands for a part of a file which is not there",
    SIGABRT: "native code gave up (abort)",
    -4: "it met an instruction that this processor does not know",
    -8: "native code divided a whole number by zero",
    -5: "native code stopped at a trap",
    -31: "it made a system call that is forbidden here",
}
FORKED = "fork"
AGAIN = "export PYTHONFAULTHANDLER=1"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "exits"))
def check(case: Case) -> Iterator[Finding]:
    crashed = [one for one in worker_deaths(case) if one.seen.status in MEANING and not is_explained(case, one)]
    for death in crashed[:1]:
        place = _place(death)
        spot = f" at {short(place)}" if place is not None else ""
        yield case.finding(
            death.worker,
            cause=f"{signal_name(death.seen.status)} ended DataLoader {who(death.worker)}{spot}"
            f"{_sample(death)}: {MEANING[death.seen.status]}.",
            seen=[*_seen(death), *_others(crashed[1:])],
            remedy=_remedy(death),
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
        return ", while it collated a batch"
    return f", with sample {_index(death)}" if _index(death) is not None else ", while it fetched a batch"


def _seen(death: Death) -> Iterator[str]:
    yield f"worker {death.worker.worker} ended by {signal_name(death.seen.status)} after {duration(death.seen.at)}"
    place, crash = _place(death), death.worker.crash
    if place is not None:
        yield f"its Python stack at that moment: {line(place)} in {place.function}"
    if crash and crash[-1] != place:
        yield f"which had called {line(crash[-1])} in {crash[-1].function}"
    if death.fetching is not None and death.fetching.samples:
        yield f"{many(death.fetching.samples, 'sample')} had come from this worker before"
    yield from (f"in the stage {one.name}" + (f" of {one.item}" if one.item else "") for one in death.worker.stages_now)
    yield f"it worked for {death.loader.name}"


def _others(others: list[Death]) -> Iterator[str]:
    if others:
        samples = [str(_index(one)) for one in others if _index(one) is not None]
        at = f", with sample {', '.join(samples[:4])}" if samples else ""
        yield f"{many(len(others), 'further worker')} crashed after it{at}"


def _remedy(death: Death) -> Remedy:
    sample = _index(death)
    indexed = sample is not None and not death.loader.iterable
    alone = f"Load dataset[{sample!r}] in the main process" if indexed else "Run the same loader with num_workers=0"
    text = f"{alone}, with the fault handler on. "
    if death.seen.status == SIGBUS:
        text += "If it is a mapped file, compare its size with what it should be, and see that nobody rewrites it."
        return Remedy(text, [AGAIN])
    text += "If it crashes there too, the sample or the library is at fault: leave the one out, or update the other. "
    if death.loader.context in (None, FORKED):
        text += "If it does not, look for a handle that was opened before the workers were forked: open it in each."
    elif indexed:
        text += "If it does not, it depends on what came before: run the whole loader with num_workers=0."
    if death.seen.status == SIGABRT:
        text += " What it gave up over is mostly said on stderr, above the traceback."
    return Remedy(text.strip(), [AGAIN])
