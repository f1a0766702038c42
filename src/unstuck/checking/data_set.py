"""A whole data set: has its files read, and puts together what was seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from ..evidence.data import Asked, Data, DataFile, Listed, Manifest
from .collecting import Collection
from .keeping import Journal, already
from .messages import Read, Task
from .noting import Wish
from .paths import Found
from .tasks import chosen, tasks

INTERRUPTED = "it was interrupted"


class Readers(Protocol):
    """Processes of this machine, or of a cluster; leaving it ends them."""

    @property
    def processes(self) -> int: ...
    def __enter__(self) -> Readers: ...  # noqa: PYI034
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def read(self, tasks: Iterable[Task], moved: Callable[[int], None]) -> Iterator[Read]: ...


class Watcher(Protocol):
    """Whoever shows how far it is."""

    def begins(self) -> None: ...
    def moved(self, count: int) -> None: ...
    def ended(self, file: DataFile) -> None: ...


class Plan(NamedTuple):
    """What is to be read, and how."""

    asked: Asked
    wish: Wish
    found: Found
    folder: Path
    manifest: Manifest | None = None
    listed: dict[str, Listed] = {}  # noqa: RUF012  (never changed)
    expected: Mapping[str, bytes] = {}
    resumed: bool = False

    @property
    def whole(self) -> set[str]:
        """Files that are read from their first byte to their last."""
        return chosen(self.found.files, self.asked.sample)

    @property
    def size(self) -> int:
        """Bytes of these."""
        return sum(self.found.files[path] for path in self.whole)


def check(plan: Plan, readers: Readers, watcher: Watcher, keep: Callable[[Read], None]) -> Data:
    """Reads on until all is read, or somebody interrupts: then it says so, and what it has is worth something."""
    began, stopped = time.monotonic(), ""
    collection = Collection(plan.listed)
    for name in plan.found.odd:
        collection.add(Read(DataFile(name, unread="its name is not UTF-8, and cannot be passed on")))
    try:
        for read in _all(plan, readers, watcher):
            keep(read)
            watcher.ended(collection.add(read))
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    return Data(
        plan.asked,
        files=collection.sorted(),
        folders=collection.folders(),
        absent=plan.found.absent,
        manifest=plan.manifest,
        speeds=collection.speeds(),
        seconds=time.monotonic() - began,
        processes=readers.processes,
        stopped=stopped,
    )


def _all(plan: Plan, readers: Readers, watcher: Watcher) -> Iterator[Read]:
    """What was read before the check was interrupted, then the rest."""
    left = dict(plan.found.files)
    for read in already(plan.folder, left) if plan.resumed else ():
        watcher.moved(left.pop(read.file.path))
        yield read
    with ExitStack() as stack:
        journal = stack.enter_context(Journal(plan.folder))
        stack.enter_context(readers)
        watcher.begins()
        for read in readers.read(tasks(left, plan.whole, plan.wish, plan.expected), watcher.moved):
            journal.add(read)
            yield read
