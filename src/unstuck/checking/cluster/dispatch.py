"""Tasks on a Ray cluster: one is done on a node. What is lost on the way is sent again, no file twice in the end."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ...evidence.data import DataFile
from ..check import Read
from ..workers import Task, Workers, task_of
from . import Answer, ClusterSize, NumberedTask, Results, encode, reads_in

TRIES = 3  # a worker or a node that is lost says little against a file: what a file kills is the worker's reader
TURN = 0.1  # seconds until new tasks, and the end, are noticed
LOOK = 10.0  # seconds between two looks at the size of the cluster
ABSENT = os.strerror(errno.ENOENT)


class Dispatch:
    """`submit` has a packed task done by Ray and gives its reference; `say` takes what came of it."""

    def __init__(
        self, ray: Any, size: ClusterSize, submit: Callable[[bytes], Any], say: Callable[[Answer], None]
    ) -> None:
        self._ray, self._size, self._submit, self._say = ray, size, submit, say
        self._open: dict[int, _OpenTask] = {}
        self._parts: dict[Any, _Part] = {}
        self._looked = time.monotonic()

    @property
    def busy(self) -> bool:
        return bool(self._parts)

    def take(self, numbered: NumberedTask) -> None:
        self._open[numbered.number] = _OpenTask(numbered.task)
        self._send(_Part(numbered.number, list(range(len(numbered.task.paths)))))

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

    def _send(self, part: _Part) -> None:
        task = self._open[part.number].task
        paths = [task.paths[place] for place in part.places]
        expected = {path: task.expected[path] for path in paths if path in task.expected}
        self._parts[self._submit(encode(Task(paths, task.wish, expected)))] = part

    def _come(self, part: _Part, ref: Any) -> None:
        """Raises what is a mistake of ours."""
        try:
            reads = reads_in(self._ray.get(ref))
        except self._ray.exceptions.RayError as error:
            if isinstance(error, self._ray.exceptions.RayTaskError) and not isinstance(error, ImportError):
                raise
            self._lost(part, error)
        else:
            self._done(part.number, zip(part.places, reads, strict=True))

    def _lost(self, part: _Part, error: Exception) -> None:
        """Files that were read together are read apart; one that stands alone is tried again, up to a limit."""
        opened = self._open[part.number]
        if len(part.places) == 1:
            place = part.places[0]
            opened.lost[place] += 1
            if opened.lost[place] >= TRIES:
                self._done(part.number, [(place, Read(DataFile(opened.task.paths[place], unread=_why(error))))])
                return
        for place in part.places:
            self._send(_Part(part.number, [place]))

    def _done(self, number: int, reads: Iterable[tuple[int, Read]]) -> None:
        opened = self._open[number]
        opened.reads.update(reads)
        if len(opened.reads) == len(opened.task.paths):
            del self._open[number]
            self._say(Results(number, [opened.reads[place] for place in sorted(opened.reads)]))


class _OpenTask:
    """A task that is not through."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.reads: dict[int, Read] = {}
        self.lost: Counter[int] = Counter()


class _Part(NamedTuple):
    """Files of one task of ours that are read by one of Ray's."""

    number: int
    places: list[int]


def _why(error: Exception) -> str:
    """Why a file stays unread."""
    known = {
        "WorkerCrashedError": "the Ray worker that had it read was killed",
        "OutOfMemoryError": "its node ran short of memory and Ray ended the worker that had it read",
        "NodeDiedError": "the node that read it went away",
        "LocalRayletDiedError": "the node that read it went away",
    }
    cause = getattr(error, "cause", None) or error
    what = (
        known.get(type(error).__name__) or f"Ray could not have it read ({type(cause).__name__}: {first_line(cause)})"
    )
    return f"{what}, {TRIES} times in a row"


def submitting(ray: Any, root: str) -> Callable[[bytes], Any]:
    """What has a packed task done by Ray, and gives its reference. `root`: where unstuck is, on nodes that are here.

    Ray sends this function itself: a node that cannot import unstuck can at least say so.
    """

    def read_on_node(body: bytes) -> bytes:
        import sys

        if root and root not in sys.path:
            sys.path.append(root)
        from unstuck.checking.cluster.dispatch import work

        return work(body)

    # Files are spread for their storage's sake. What is lost is sent again by us, who know which files it was.
    remote = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(read_on_node)
    submit: Callable[[bytes], Any] = remote.remote
    return submit


def work(body: bytes) -> bytes:
    """On a node: a task, packed, for what was seen of its files, packed.

    A file that kills its reader does not kill the worker of Ray.
    """
    node = os.uname().nodename
    return encode([_placed(read, node) for read in _workers().read([task_of(body)], lambda _: None)])


@cache
def _workers() -> Workers:
    """Lives as long as the Ray worker, which does one task after the other; its reader dies with it."""
    return Workers(1)


def _placed(read: Read, node: str) -> Read:
    """A file that is here and not there is no damage: it says where it was looked for."""
    if read.file.unread != ABSENT:
        return read
    why = f"not on node {node}: share its folder between the nodes, or give an address that all of them reach (s3://…)"
    return msgspec.structs.replace(read, file=msgspec.structs.replace(read.file, unread=why))


def size_of(ray: Any) -> ClusterSize:
    return ClusterSize(int(ray.cluster_resources().get("CPU", 0)), sum(bool(node["Alive"]) for node in ray.nodes()))


def first_line(error: BaseException) -> str:
    """The first line of what it says: Ray appends pages."""
    words = str(error).strip().splitlines()
    return words[0].strip(" .") if words else type(error).__name__
