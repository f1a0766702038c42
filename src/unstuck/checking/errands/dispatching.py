"""Errands on a Ray cluster: one task each, and whatever is lost on the way is sent again, no file twice in the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from ...evidence.data import DataFile
from ..check import Read
from ..workers import Task
from .joining import line, size_of
from .words import Brought, Errand, Joined, Said, encode, reads_in

TRIES = 3  # a worker or a node that is lost says little against a file: what a file kills is the worker's reader
TURN = 0.1  # seconds until new errands, and the end, are noticed
LOOK = 10.0  # seconds between two looks at the size of the cluster


class Part(NamedTuple):
    """Files of one errand that are read by one Ray task."""

    number: int
    places: list[int]


class Open:
    """An errand that is not through."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.reads: dict[int, Read] = {}
        self.lost: Counter[int] = Counter()


class Dispatch:
    """`submit` has a packed task done by Ray and gives its reference; `say` takes what came of it."""

    def __init__(self, ray: Any, size: Joined, submit: Callable[[bytes], Any], say: Callable[[Said], None]) -> None:
        self._ray, self._size, self._submit, self._say = ray, size, submit, say
        self._open: dict[int, Open] = {}
        self._parts: dict[Any, Part] = {}
        self._looked = time.monotonic()

    @property
    def busy(self) -> bool:
        return bool(self._parts)

    def take(self, errand: Errand) -> None:
        self._open[errand.number] = Open(errand.task)
        self._send(Part(errand.number, list(range(len(errand.task.paths)))))

    def turn(self) -> None:
        """Waits a moment for what is ready, and hands it on."""
        self._look()
        refs = list(self._parts)
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=TURN)
        if ready:
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            self._come(self._parts.pop(ref), ref)

    def cancel(self) -> None:
        for ref in self._parts:
            with suppress(Exception):
                self._ray.cancel(ref, force=True)

    def _look(self) -> None:
        """A cluster that grows gets more to do."""
        if time.monotonic() - self._looked > LOOK:
            self._looked = time.monotonic()
            size = size_of(self._ray)
            if size != self._size:
                self._size = size
                self._say(size)

    def _send(self, part: Part) -> None:
        task = self._open[part.number].task
        paths = [task.paths[one] for one in part.places]
        expected = {path: task.expected[path] for path in paths if path in task.expected}
        self._parts[self._submit(encode(Task(paths, task.wish, expected)))] = part

    def _come(self, part: Part, ref: Any) -> None:
        """Raises what is a mistake of ours."""
        try:
            reads = reads_in(self._ray.get(ref))
        except self._ray.exceptions.RayError as error:
            if isinstance(error, self._ray.exceptions.RayTaskError) and not isinstance(error, ImportError):
                raise
            self._lost(part, error)
        else:
            self._done(part.number, zip(part.places, reads, strict=True))

    def _lost(self, part: Part, error: Exception) -> None:
        """Files that were read together are read apart; one that stands alone is tried again, up to a limit."""
        errand = self._open[part.number]
        if len(part.places) == 1:
            place = part.places[0]
            errand.lost[place] += 1
            if errand.lost[place] >= TRIES:
                self._done(part.number, [(place, Read(DataFile(errand.task.paths[place], unread=_why(error))))])
                return
        for place in part.places:
            self._send(Part(part.number, [place]))

    def _done(self, number: int, reads: Iterable[tuple[int, Read]]) -> None:
        errand = self._open[number]
        errand.reads.update(reads)
        if len(errand.reads) == len(errand.task.paths):
            del self._open[number]
            self._say(Brought(number, [errand.reads[place] for place in sorted(errand.reads)]))


def _why(error: Exception) -> str:
    """Why a file stays unread."""
    known = {
        "WorkerCrashedError": "the Ray worker that had it read was killed",
        "OutOfMemoryError": "its node ran short of memory and Ray ended the worker that had it read",
        "NodeDiedError": "the node that read it went away",
        "LocalRayletDiedError": "the node that read it went away",
    }
    cause = getattr(error, "cause", None) or error
    what = known.get(type(error).__name__) or f"Ray could not have it read ({type(cause).__name__}: {line(cause)})"
    return f"{what}, {TRIES} times in a row"
