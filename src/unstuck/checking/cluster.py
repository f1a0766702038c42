"""A Ray cluster in the place of workers of this machine: the same tasks, the same answers, on whatever node is free."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import count
from types import TracebackType

from msgspec.structs import replace

from ..errors import UserError
from .check import Read
from .errands.driver import GRACE, JOINING, Driver
from .errands.joining import place
from .errands.words import Brought, Errand, Joined
from .files import is_address
from .workers import Task

AHEAD = 2  # tasks for each processor: one that is read, and one that waits
PATIENCE = 60.0  # seconds until a processor is free


class Cluster:
    """`with Cluster("ray://head:10001") as cluster: for read in cluster.read(tasks, moved): …`, as with `Workers`.

    A cluster that was there stays; one that had to be started ends with the `with`. Raises UserError.
    """

    def __init__(self, address: str, patience: float = PATIENCE) -> None:
        self._address, self._patience = address, patience
        self._where = place(address)
        self._numbers = count()
        self.size = Joined(0, 0)

    @property
    def processes(self) -> int:
        return self.size.cpus

    def __enter__(self) -> Cluster:  # noqa: PYI034
        if find_spec("ray") is None:
            raise UserError(f"--on {self._address} needs Ray, which is not installed", "pip install 'unstuck[ray]'")
        self._driver = Driver(self._where, self._patience)
        try:
            self._join(JOINING + self._patience + GRACE)
        except BaseException:
            self._driver.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.end()

    def read(self, tasks: Iterable[Task], moved: Callable[[int], None]) -> Iterator[Read]:
        """What was seen of each file, as it comes. `moved` is told of a file's bytes when it is through."""
        more, out = iter(tasks), dict[int, Task]()
        while True:
            while len(out) < max(1, self.size.cpus * AHEAD) and (task := next(more, None)) is not None:
                number = next(self._numbers)
                out[number] = task
                self._driver.say(Errand(number, _rooted(task)))
            if not out:
                return
            said = self._driver.hear()
            if isinstance(said, Joined):
                self.size = said
            elif isinstance(said, Brought) and said.number in out:
                yield from _named(out.pop(said.number), said.reads, moved)

    def _join(self, limit: float) -> None:
        said = self._driver.hear(limit)
        if not isinstance(said, Joined):
            what = f"the Ray cluster ({self._address}) gives no answer within {limit:.0f} s"
            raise UserError(what, "look at it with `ray status`")
        self.size = said


def _rooted(task: Task) -> Task:
    """Paths as other processes find them, which stand elsewhere."""
    expected = {_absolute(path): digests for path, digests in task.expected.items()}
    return Task([_absolute(path) for path in task.paths], task.wish, expected)


def _absolute(path: str) -> str:
    return path if is_address(path) else os.path.abspath(path)


def _named(task: Task, reads: list[Read], moved: Callable[[int], None]) -> Iterator[Read]:
    """Under the names by which they were asked for."""
    for path, read in zip(task.paths, reads, strict=True):
        moved(read.file.read)
        yield replace(read, file=replace(read.file, path=path))
