"""Several readers at work: hands out files, takes what they saw, and replaces one that dies of a file."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from ..evidence.data import DataFile, Fault
from .messages import Inbox, Message, Moved, Read, Task, packed
from .noting import Wish

PIECE = 1 << 16
ROOT = str(Path(__file__).parents[2])
# The folder we stand in may have a queue.py: nothing is imported from there.
START = "import sys; sys.path[:] = [one for one in sys.path if one] + sys.argv[1:]; "
START += "from unstuck.checking.reader import main; main()"
ENDING = 5.0  # seconds that a process may take to be gone when its pipe is closed: some write a core
TRIES = 2  # a reader that was killed by somebody else did not die of its file


class _Reader:
    """One process, and what it is at."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (what libraries say is worth nothing, unless it dies)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, ROOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )
        self.inbox = Inbox()
        self.left: deque[str] = deque()
        self.task = Task([], Wish())

    def give(self, task: Task) -> None:
        self.task, self.left = task, deque(task.paths)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead: that shows at the other pipe
            self.process.stdin.write(packed(task))
            self.process.stdin.flush()

    def end(self, patience: float = 0.0) -> int:
        """`patience`: it is about to end by itself, and how it does matters. Raises what is a mistake of ours."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.process.kill()
        status = self.process.wait()
        with suppress(BrokenPipeError):
            self.process.communicate()
        with self._said:
            if patience and status > 0:
                self._said.seek(0)
                raise RuntimeError(f"a reader failed:\n{self._said.read().decode(errors='replace')[-4000:]}")
        return status


class Crew:
    """`with Crew(4) as crew: for read in crew.read(tasks, moved): …`. Leaving it ends all its processes."""

    def __init__(self, size: int, until: float | None = None) -> None:
        """`until`: the moment (time.monotonic) at which it stops reading, wherever it is."""
        self._size, self._until = size, until
        self._readers: list[_Reader] = []
        self._selector = selectors.DefaultSelector()
        self._died: dict[str, int] = {}

    @property
    def processes(self) -> int:
        return self._size

    def __enter__(self) -> Crew:  # noqa: PYI034
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in self._readers:
            reader.end()
        self._selector.close()

    def read(self, tasks: Iterable[Task], moved: Callable[[int], None]) -> Iterator[Read]:
        """What was seen of each file, as it comes. `moved` is told of bytes that were read."""
        waiting, more = deque[Task](), iter(tasks)
        self._fill(waiting, more)
        while any(reader.left for reader in self._readers):
            if self._until is not None and time.monotonic() > self._until:
                return
            for key, _ in self._selector.select(0.1):
                yield from self._heard(key.data, waiting, moved)
            self._fill(waiting, more)

    def _fill(self, waiting: deque[Task], more: Iterator[Task]) -> None:
        """Work for everybody who has none."""
        while True:
            idle = next((one for one in self._readers if not one.left), None)
            if idle is None and len(self._readers) >= self._size:
                return
            task = waiting.popleft() if waiting else next(more, None)
            if task is None:
                return
            (idle or self._another()).give(task)

    def _another(self) -> _Reader:
        reader = _Reader()
        self._readers.append(reader)
        assert reader.process.stdout is not None
        self._selector.register(reader.process.stdout, selectors.EVENT_READ, reader)
        return reader

    def _heard(self, reader: _Reader, waiting: deque[Task], moved: Callable[[int], None]) -> Iterator[Read]:
        assert reader.process.stdout is not None
        data = os.read(reader.process.stdout.fileno(), PIECE)
        if not data:
            yield from self._bury(reader, waiting)
            return
        for message in reader.inbox.add(data):
            yield from _taken(reader, message, moved)

    def _bury(self, reader: _Reader, waiting: deque[Task]) -> Iterator[Read]:
        """Of what it had left the first is what it died of, unless it was killed by chance: that is tried again."""
        assert reader.process.stdout is not None
        self._selector.unregister(reader.process.stdout)
        self._readers.remove(reader)
        status = reader.end(patience=ENDING)
        left = list(reader.left)
        if not left:
            return
        path = left[0]
        self._died[path] = self._died.get(path, 0) + 1
        if self._died[path] >= TRIES:
            left.pop(0)
            yield Read(DataFile(path, faults=[_death(status)], counts={"reader-died": 1}))
        if left:
            waiting.appendleft(Task(left, reader.task.wish, reader.task.expected))


def _taken(reader: _Reader, message: Message, moved: Callable[[int], None]) -> Iterator[Read]:
    if isinstance(message, Moved):
        moved(message.count)
    else:
        reader.left.popleft()
        yield message


def _death(status: int) -> Fault:
    how = signal.Signals(-status).name
    return Fault("reader-died", f"whatever reads this file dies of it: two processes were ended by {how} over it")
