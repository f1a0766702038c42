"""Processes of this machine that read files for a check: who hands out files to several, and what each of them does.

Tasks go to the stdin of a worker, and what it has seen comes from its stdout: messages with their length in front.
"""

from __future__ import annotations

import ctypes
import os
import resource
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
from typing import BinaryIO

import msgspec

from ..evidence.data import DataFile, Fault
from .check import Read, check
from .notes import Wish

ROOT = str(Path(__file__).parents[2])
# The folder we stand in may have a queue.py: nothing is imported from there.
START = "import sys; sys.path[:] = [path for path in sys.path if path] + sys.argv[1:]; "
START += "from unstuck.checking.workers import main; main()"
PIECE = 1 << 16  # bytes of messages that are taken at a time
ENDING = 5.0  # seconds that a process may take to be gone when its pipe is closed: some write a core
TRIES = 2  # a worker that was killed by somebody else did not die of its file
MEMORY = 4 << 30  # bytes of a worker, whatever a file asks for
EVERY = 0.2  # seconds between two words about progress
LENGTH = 4  # bytes of a message's length
PR_SET_PDEATHSIG = 1


class Task(msgspec.Struct, tag="task"):
    """Files to read, one after the other, and what a manifest says of the members of some of them."""

    paths: list[str]
    wish: Wish
    expected: dict[str, bytes] = {}  # CRC-32 of each member, in their order, four bytes each


class Progress(msgspec.Struct, tag="moved"):
    """So many bytes more."""

    count: int


Message = Progress | Read
_encoder = msgspec.msgpack.Encoder()
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_tasks = msgspec.msgpack.Decoder(Task)


class Workers:
    """`with Workers(4) as workers: for read in workers.read(tasks, moved): …`. Leaving it ends all its processes."""

    def __init__(self, size: int, until: float | None = None) -> None:
        """`until`: the moment (time.monotonic) at which it stops reading, wherever it is."""
        self._size, self._until = size, until
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._died: dict[str, int] = {}

    @property
    def processes(self) -> int:
        return self._size

    def __enter__(self) -> Workers:  # noqa: PYI034
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()
        self._selector.close()

    def read(self, tasks: Iterable[Task], moved: Callable[[int], None]) -> Iterator[Read]:
        """What was seen of each file, as it comes. `moved` is told of bytes that were read."""
        waiting, more = deque[Task](), iter(tasks)
        self._fill(waiting, more)
        while any(worker.left for worker in self._workers):
            if self._until is not None and time.monotonic() > self._until:
                return
            for key, _ in self._selector.select(0.1):
                yield from self._heard(key.data, waiting, moved)
            self._fill(waiting, more)

    def _fill(self, waiting: deque[Task], more: Iterator[Task]) -> None:
        """Work for everybody who has none."""
        while True:
            idle = next((worker for worker in self._workers if not worker.left), None)
            if idle is None and len(self._workers) >= self._size:
                return
            task = waiting.popleft() if waiting else next(more, None)
            if task is None:
                return
            (idle or self._another()).give(task)

    def _another(self) -> _Worker:
        worker = _Worker()
        self._workers.append(worker)
        assert worker.process.stdout is not None
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _heard(self, worker: _Worker, waiting: deque[Task], moved: Callable[[int], None]) -> Iterator[Read]:
        assert worker.process.stdout is not None
        data = os.read(worker.process.stdout.fileno(), PIECE)
        if not data:
            yield from self._bury(worker, waiting)
            return
        for message in worker.inbox.add(data):
            yield from _reads_in(worker, message, moved)

    def _bury(self, worker: _Worker, waiting: deque[Task]) -> Iterator[Read]:
        """Of what it had left the first is what it died of, unless it was killed by chance: that is tried again."""
        assert worker.process.stdout is not None
        self._selector.unregister(worker.process.stdout)
        self._workers.remove(worker)
        status = worker.end(patience=ENDING)
        left = list(worker.left)
        if not left:
            return
        path = left[0]
        self._died[path] = self._died.get(path, 0) + 1
        if self._died[path] >= TRIES:
            left.pop(0)
            yield Read(DataFile(path, faults=[_fault_of_death(status)], counts={"reader-died": 1}))
        if left:
            waiting.appendleft(Task(left, worker.task.wish, worker.task.expected))


class _Worker:
    """One process, and what it is at."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (what libraries say is worth nothing, unless it dies)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, ROOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said
        )
        self.inbox = _Inbox()
        self.left: deque[str] = deque()
        self.task = Task([], Wish())

    def give(self, task: Task) -> None:
        self.task, self.left = task, deque(task.paths)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it is dead: that shows at the other pipe
            self.process.stdin.write(_packed(task))
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


def _reads_in(worker: _Worker, message: Message, moved: Callable[[int], None]) -> Iterator[Read]:
    if isinstance(message, Progress):
        moved(message.count)
    else:
        worker.left.popleft()
        yield message


def _fault_of_death(status: int) -> Fault:
    how = signal.Signals(-status).name
    return Fault("reader-died", f"two processes that read it were killed ({how})")


def _packed(message: Task | Message) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(LENGTH, "little") + body


def task_of(body: bytes) -> Task:
    return _tasks.decode(body)


class _Inbox:
    """Messages out of pieces of a pipe."""

    def __init__(self) -> None:
        self._held = bytearray()

    def add(self, data: bytes) -> list[Message]:
        self._held += data
        found, at = [], 0
        while len(self._held) - at >= LENGTH:
            end = at + LENGTH + int.from_bytes(self._held[at : at + LENGTH], "little")
            if len(self._held) < end:
                break
            found.append(_messages.decode(self._held[at + LENGTH : end]))
            at = end
        del self._held[:at]
        return found


def main() -> None:
    """The whole life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever sent us decides when it is over
    _die_with_parent()
    with suppress(ValueError, OSError):  # a limit that is lower already
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    reader, tasks = _TaskReader(sys.stdout.buffer), sys.stdin.buffer
    sys.stdout = sys.stderr  # nothing that a library prints may come between the messages
    with suppress(BrokenPipeError):  # nobody listens any more
        while length := tasks.read(LENGTH):
            reader.work(task_of(tasks.read(int.from_bytes(length, "little"))))
    os._exit(0)  # libraries with threads need not be waited for: nothing is left to do


class _TaskReader:
    """What a worker does with its tasks."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._moved = 0
        self._told = 0.0

    def work(self, task: Task) -> None:
        for path in task.paths:
            read = check(path, task.wish, self._progress, task.expected.get(path, b""))
            self._tell()
            self._say(read)

    def _progress(self, count: int) -> None:
        self._moved += count
        if time.monotonic() - self._told > EVERY:
            self._tell()

    def _tell(self) -> None:
        self._say(Progress(self._moved))
        self._moved, self._told = 0, time.monotonic()

    def _say(self, message: Message) -> None:
        self._out.write(_packed(message))
        self._out.flush()


def _die_with_parent() -> None:
    """Also where the parent is killed and can say nothing."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
