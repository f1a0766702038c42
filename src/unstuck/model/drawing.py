"""Stacks on which a sampler, asked for the next indices, reads the dataset itself in the main process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .doing import LOADER_FILES, is_idle_worker
from .evidence import Evidence
from .look import Frame, Seen, own_calls
from .phrases import duration
from .places import Place
from .questions import host_of, is_users
from .recorded import Loader, Process
from .standing import main_stack, mains, workers

DRAWS = ("_next_index", "_reset", "_try_put_index")  # of torch's iterators: what they call is the sampler
OFTEN = 0.3  # of the samples of a main thread
READS = ("__getitem__", "__getitems__")


class Met(NamedTuple):
    """A main process that was met so, without a recording."""

    main: Seen
    frames: tuple[Frame, Frame]  # the sampler's, the dataset's
    seconds: float  # for which its workers have waited for an index, or for which samples met it so
    told: str


def met(evidence: Evidence) -> Iterator[Met]:
    """At both looks, while its workers had nothing to do for as long as they are there; or again and again."""
    for main, stack in mains(evidence):
        now, then = between(stack.calls), between(own_calls(stack.before))
        idle = [one for one in workers(evidence, main) if _is_idle(evidence, one)]
        if now is not None and then is not None and idle and len(idle) == len(workers(evidence, main)):
            age = min(one.age for one in idle)
            yield Met(main, now, age, f"its workers are {duration(age)} old, and wait for an index")
            continue
        mine = [one for one in evidence.samples or () if one.pid == one.tid == main.pid]
        found = [(one, pair) for one in mine if (pair := between(one.frames)) is not None]
        seconds, looked = sum(one.seconds for one, _ in found), sum(one.seconds for one in mine)
        if found and seconds >= OFTEN * looked:
            told = f"it was met so for {duration(seconds)} of {duration(looked)} of samples"
            yield Met(main, found[0][1], seconds, told)


def _is_idle(evidence: Evidence, worker: Seen) -> bool:
    stack = main_stack(evidence, worker.pid)
    return stack is not None and is_idle_worker(stack.calls)


def reading_frames(evidence: Evidence, main: Process, loader: Loader) -> tuple[Frame, Frame] | None:
    """The sampler's line and the dataset's, from a look or from one of the watcher's glances."""
    for frames in _stacks(evidence, main):
        found = between(frames, loader)
        if found is not None:
            return found
    return None


def _stacks(evidence: Evidence, main: Process) -> list[list[Frame]]:
    """Innermost first."""
    live = [one.calls for one in evidence.stacks or () if one.pid == main.pid]
    host = host_of(evidence, main)
    return live + [one.frames for one in (host.glances if host else ()) if one.pid == main.pid]


def between(frames: list[Frame], loader: Loader | None = None) -> tuple[Frame, Frame] | None:
    draws = next((at for at, one in enumerate(frames) if one.name in DRAWS and _in_loader(one)), None)
    if draws is None:
        return None
    inner = [one for one in frames[:draws] if not one.native]
    reads = next((at for at, one in enumerate(inner) if one.name in READS and _of_dataset(one, loader)), None)
    if reads is None:
        return None
    sampler = next((one for one in inner[reads + 1 :] if is_users(Place(one.file, one.line, one.function))), None)
    return None if sampler is None else (sampler, inner[reads])


def _in_loader(frame: Frame) -> bool:
    return any(part in frame.file for part in LOADER_FILES)


def _of_dataset(frame: Frame, loader: Loader | None) -> bool:
    """A list has a `__getitem__`, too, but none that is seen; a dataset of a library is one of the user's choice."""
    return loader is None or loader.reads_at is None or frame.file == loader.reads_at.file
