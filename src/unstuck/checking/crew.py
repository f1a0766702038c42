"""Several readers at work: hands out files, takes what they saw, and replaces one that dies of a file."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType

from ..model.checked import DataFile, Fault
from .messages import Inbox, Message, Moved, Read, Task, packed
from .noting import Wish

PIECE = 1 << 16
ROOT = str(Path(__file__).parents[2])
# The folder we stand in may have a queue.py: nothing is imported from there.
START = "import sys; sys.path[:] = [one for one in sys.path if one] + sys.argv[1:]; "
START += "from unstuck.checking.reader import main; main()"
TRIES = 2  # a reader that was killed by somebody else did not die of its file


class _Reader:
    """One process, and what it is at."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, ROOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.inbox = Inbox()
        self.left: deque[str] = deque()

    def give(self, paths: list[str], wish: Wish) -> None:
        self.left = deque(paths)
        assert self.process.stdin is not None
        self.process.stdin.write(packed(Task(paths, wish)))
        self.process.stdin.flush()

    def end(self) -> int:
        self.process.kill()
        status = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return status


class Crew:
    """`with Crew(4) as crew: for read in crew.read(tasks, wish, moved): …`. Leaving it ends all its processes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._readers: list[_Reader] = []
        self._selector = selectors.DefaultSelector()
        self._died: dict[str, int] = {}

    def __enter__(self) -> Crew:  # noqa: PYI034
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in self._readers:
            reader.end()
        self._selector.close()

    def read(self, tasks: Iterable[list[str]], wish: Wish, moved: Callable[[int], None]) -> Iterator[Read]:
        """What was seen of each file, as it comes."""
        waiting, more = deque[list[str]](), iter(tasks)
        self._fill(waiting, more, wish)
        while any(reader.left for reader in self._readers):
            for key, _ in self._selector.select(0.5):
                yield from self._heard(key.data, waiting, moved)
            self._fill(waiting, more, wish)

    def _fill(self, waiting: deque[list[str]], more: Iterator[list[str]], wish: Wish) -> None:
        """Work for everybody who has none."""
        while True:
            idle = next((one for one in self._readers if not one.left), None)
            if idle is None and len(self._readers) >= self._size:
                return
            paths = waiting.popleft() if waiting else next(more, [])
            if not paths:
                return
            (idle or self._another()).give(paths, wish)

    def _another(self) -> _Reader:
        reader = _Reader()
        self._readers.append(reader)
        assert reader.process.stdout is not None
        self._selector.register(reader.process.stdout, selectors.EVENT_READ, reader)
        return reader

    def _heard(self, reader: _Reader, waiting: deque[list[str]], moved: Callable[[int], None]) -> Iterator[Read]:
        assert reader.process.stdout is not None
        data = os.read(reader.process.stdout.fileno(), PIECE)
        if not data:
            yield from self._bury(reader, waiting)
            return
        for message in reader.inbox.add(data):
            yield from _taken(reader, message, moved)

    def _bury(self, reader: _Reader, waiting: deque[list[str]]) -> Iterator[Read]:
        """Of what it had left the first is what it died of, unless it was killed by chance: that is tried again."""
        assert reader.process.stdout is not None
        self._selector.unregister(reader.process.stdout)
        self._readers.remove(reader)
        status = reader.end()
        left = list(reader.left)
        if not left:
            return
        path = left[0]
        self._died[path] = self._died.get(path, 0) + 1
        if self._died[path] >= TRIES:
            left.pop(0)
            yield Read(DataFile(path, faults=[_death(status)], counts={"reader-died": 1}))
        if left:
            waiting.appendleft(left)


def _taken(reader: _Reader, message: Message, moved: Callable[[int], None]) -> Iterator[Read]:
    if isinstance(message, Moved):
        moved(message.count)
    else:
        reader.left.popleft()
        yield message


def _death(status: int) -> Fault:
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return Fault("reader-died", f"whatever reads this file dies of it: a process that did {how}, twice")
