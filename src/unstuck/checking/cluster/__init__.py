"""A Ray cluster in the place of workers of this machine: the same tasks, the same answers, on whatever node is free.

Four kinds of processes are at work: the check itself, which has a `Cluster`; the one that speaks to Ray for it
(`ray_process.py`), which sends tasks and sends again what is lost (`dispatch.py`); a Ray worker on a node; and the one
of our `Workers` that it starts there, as on any machine. So this is imported on nodes, which may have little beside
msgspec.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ...errors import UserError
from ...wording.printable import shortened
from ..check import Read
from ..files import is_address
from ..workers import ROOT, Task

AHEAD = 2  # tasks for each processor: one that is read, and one that waits
PATIENCE = 60.0  # seconds until a processor is free
JOINING = 60.0  # seconds; Ray's client gives up after 30 by itself, and the rest of Ray not within 120
GRACE = 10.0  # seconds for leaving the cluster; then the process is gone
START = "import sys; sys.path.append(sys.argv.pop(1)); from unstuck.checking.cluster.ray_process import main; main()"
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run`, all of the folder we stand in would go to the cluster
    "RAY_ENABLE_AUTO_CONNECT": "0",  # whoever has lost a cluster would look for another, or start one
}
STAMP = re.compile(r"^\[[^\]]*\] (\S+: )?")  # of a line in Ray's log
AGAIN = "look at it with `ray status`, and go on with --resume"
LONGEST = 20  # characters of the folder for temporary ones: below it Ray makes sockets, whose names end at 107
PORT = 10001  # of Ray's client server, unless the head was told another
WAYS = "write ray, ray://auto, ray://local or ray://HOST:10001"


class NumberedTask(msgspec.Struct, frozen=True):
    """A task for the process that speaks to Ray, with the number under which its files come back."""

    number: int
    task: Task


class ClusterSize(msgspec.Struct, frozen=True, tag="joined"):
    """The cluster works for us; said again when it has grown."""

    cpus: int
    nodes: int


class Refusal(msgspec.Struct, frozen=True, tag="refused"):
    """It does not, or no longer: what happened, and what to do."""

    what: str
    remedy: str


class Results(msgspec.Struct, frozen=True, tag="brought"):
    """What was seen of the files of a task, in their order."""

    number: int
    reads: list[Read]


Answer = ClusterSize | Refusal | Results
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_numbered_tasks = msgspec.msgpack.Decoder(NumberedTask)
_reads = msgspec.msgpack.Decoder(list[Read])
encode = msgspec.msgpack.Encoder().encode


def _answer_in(body: bytes) -> Answer:
    return _answers.decode(body)


def numbered_task_in(body: bytes) -> NumberedTask:
    return _numbered_tasks.decode(body)


def reads_in(body: bytes) -> list[Read]:
    return _reads.decode(body)


class Cluster:
    """`with Cluster("ray://head:10001") as cluster: for read in cluster.read(tasks, moved): …`, as with `Workers`.

    A cluster that was there stays; one that had to be started ends with the `with`. Raises UserError.
    """

    def __init__(self, address: str, patience: float = PATIENCE) -> None:
        self._address, self._patience = address, patience
        self._where = _place(address)
        self._numbers = count()
        self.size = ClusterSize(0, 0)

    @property
    def processes(self) -> int:
        return self.size.cpus

    def __enter__(self) -> Cluster:  # noqa: PYI034
        if find_spec("ray") is None:
            raise UserError(f"--on {self._address} needs Ray, which is not installed", "pip install 'unstuck[ray]'")
        self._driver = _Driver(self._where, self._patience)
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
                self._driver.say(NumberedTask(number, _rooted(task)))
            if not out:
                return
            answer = self._driver.hear()
            if isinstance(answer, ClusterSize):
                self.size = answer
            elif isinstance(answer, Results) and answer.number in out:
                yield from _named(out.pop(answer.number), answer.reads, moved)

    def _join(self, limit: float) -> None:
        answer = self._driver.hear(limit)
        if not isinstance(answer, ClusterSize):
            what = f"the Ray cluster ({self._address}) gives no answer within {limit:.0f} s"
            raise UserError(what, "look at it with `ray status`")
        self.size = answer


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


def _place(address: str) -> str:
    """`any`, `auto`, `local`, or an address for Ray's client. Raises UserError."""
    if address in ("ray", "ray://"):
        return "any"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or PORT
    except ValueError:
        host, port = "", PORT
    if not host or parts.scheme != "ray":
        raise UserError(f"--on {address} names no cluster", WAYS)
    if host in ("auto", "local") and parts.port is None:
        return host
    return f"ray://[{host}]:{port}" if ":" in host else f"ray://{host}:{port}"


class _Driver:
    """Starts the process that speaks to Ray, talks with it, and sees that nothing of it is left.

    `where`: see `_place`. `patience`: seconds until its first task must have run.
    """

    def __init__(self, where: str, patience: float) -> None:
        base = tempfile.gettempdir()
        self._folder = tempfile.mkdtemp(prefix="unstuck-ray-", dir=base if len(base) <= LONGEST else "/tmp")
        self._log = Path(self._folder, "driver.log")
        self._heard = False
        self._channel, theirs = Pipe()
        with theirs, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, ROOT, str(theirs.fileno()), self._folder, where, str(patience)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **SETTINGS},
                start_new_session=True,  # Ctrl-C is for us, who tell it
            )

    def say(self, task: NumberedTask) -> None:
        with suppress(ConnectionError):  # it has ended, which `hear` tells of
            self._channel.send_bytes(encode(task))

    def hear(self, timeout: float | None = None) -> Answer | None:
        """What it says next, or nothing in this time. Raises UserError where it says that it cannot go on."""
        if not self._channel.poll(timeout):
            return None
        try:
            answer = _answer_in(self._channel.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise self._failure() from None
        self._heard = True
        if isinstance(answer, Refusal):
            raise UserError(answer.what, answer.remedy)
        return answer

    def end(self) -> None:
        """One that never said anything has nothing to leave in good order."""
        self._channel.close()
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE + 2 if self._heard else 0)
        finally:
            self._process.kill()
            self._process.wait()
            self._sweep()

    def _sweep(self) -> None:
        """What a cluster that we started leaves: processes that stand in its folder, and the folder they write to."""
        import psutil  # nodes may lack it

        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.cwd().startswith(self._folder):
                    process.kill()
                    process.wait(1)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _failure(self) -> Exception:
        """It is gone without a word: by a mistake of ours, or because Ray ends whoever has lost its cluster."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        words = self._log.read_text(errors="replace").strip()
        if "Traceback" in words:
            return RuntimeError(f"the process that speaks to Ray failed:\n{words[-4000:]}")
        last = STAMP.sub("", words.splitlines()[-1]).partition(". ")[0] if words else "it ended without a word"
        return UserError(f"Ray lost its cluster: {shortened(last)}", AGAIN)
