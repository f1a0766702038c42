"""The running process's place in the run: its one recording, opened when first needed, never shared across a fork.

A forked child knows what threads its parent had: none of them came along, but every lock that they held did.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import threading
from collections.abc import Callable

from .. import format as f
from ..format import THREAD
from . import garbage
from .guard import quietly
from .objects import attributes_of
from .ranks import write_rank
from .recorder import Recorder, clock, started_ticks
from .run_folder import sample_times
from .stacks import stacks

LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "accelerate.commands.launch",
)

KEPT_WORKERS = 64  # recordings of workers that are kept for each parent: 15 MB

SHOWN_THREADS = 8
LONGEST_NAME = 80

_threads_at_fork: dict[int, threading.Thread] = {}  # while a fork is under way

# No Python is run before the fork: what a signal handler raises inside such a callback is lost to the user.
os.register_at_fork(
    before=functools.partial(_threads_at_fork.update, getattr(threading, "_active", {})),
    after_in_parent=_threads_at_fork.clear,
)


class Process:
    """The recording of the running process, or the decision not to have one."""

    __slots__ = (
        "ended_by", "folder", "imported", "last_things", "optimizer_steps", "pid", "recorder", "refused", "remembered",
        "said", "threads",
    )  # fmt: skip

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.folder: str | None = None  # None: recording is switched off
        self.refused = False
        self.pid = os.getpid()
        self.optimizer_steps = 0
        self.imported = 0  # when `import torch` was through, if it was seen
        self.ended_by: tuple[object, ...] = ()  # identity of the exception that nobody caught
        self.said: list[str] = []  # exceptions that were kept, as JSON
        self.remembered: list[Callable[[], None]] = []  # who has something that is not written down yet
        self.last_things: list[Callable[[], None]] = []  # to be done when it ends by itself
        self.threads: tuple[int, list[str]] | None = None  # of the parent at the fork
        os.register_at_fork(after_in_child=self._after_fork)

    def record_into(self, folder: str) -> None:
        self.folder = folder
        self.refused = False
        self.pid = os.getpid()

    def _after_fork(self) -> None:
        recorder, self.recorder = self.recorder, None
        self.pid = os.getpid()
        garbage.leave()
        self.said = []
        self.remembered = []
        self.last_things = []
        self.optimizer_steps = self.imported = 0
        self.refused = False
        if recorder is not None:
            recorder.abandon()
        quietly(self._look_around)

    def _look_around(self) -> None:
        self.threads = _inherited_threads()
        stacks.after_fork()

    def recording(self, role: int = f.ROLE_OTHER) -> Recorder | None:
        """The recording, made now if there is none. Callers on a hot path look at `recorder` first."""
        if self.recorder is None and self.folder is not None and not self.refused:
            self._open(role)
        recorder = self.recorder
        if recorder is not None and role and not recorder.words[f.H_ROLE]:
            recorder.words[f.H_ROLE] = role  # it was opened for a child's exit status, before its role showed
        return recorder

    def torch_imported(self) -> None:
        """A worker that is spawned imports torch before it has a recording."""
        self.imported = clock()
        if self.recorder is not None:
            self.recorder.words[f.H_IMPORTED] = self.imported

    def _open(self, role: int) -> None:
        path = f"{self.folder}/{os.uname().nodename}.{os.getppid()}.{self.pid}.{started_ticks()}.rec"
        small = f.DETAILED_LAYOUT if sample_times() else f.WORKER_LAYOUT
        layout = small if role in (f.ROLE_WORKER, f.ROLE_OTHER) else f.MAIN_LAYOUT
        try:
            recorder = Recorder(path, layout)
        except OSError as refusal:
            self.refused = True
            self._note_refusal(refusal)
            return
        recorder.words[f.H_ROLE] = role
        recorder.words[f.H_IMPORTED] = self.imported
        recorder.words[f.H_ALLOWED] = len(os.sched_getaffinity(0))
        write_rank(recorder)
        if self.threads is not None:
            recorder.words[f.H_FORK_NAMES] = recorder.intern(json.dumps(self.threads[1], ensure_ascii=False))
            recorder.words[f.H_FORK_THREADS] = self.threads[0]
        recorder.publish()
        self.recorder = recorder
        if role != f.ROLE_WORKER:  # a worker does so at its first batch: torch sets up its handlers before
            quietly(stacks.answer, recorder)
        if role == f.ROLE_MAIN:
            garbage.watch()
        atexit.register(quietly, self._at_exit)

    def _note_refusal(self, refusal: OSError) -> None:
        """An empty file needs no block even on a full disk; its name tells the watcher what happened."""
        path = f"{self.folder}/unrecorded-{self.pid}-{refusal.errno}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except OSError:
            return

    def _at_exit(self) -> None:
        self.ended(f.ENDED_EXIT)

    def settle(self) -> None:
        """Have everything written down that is only remembered so far."""
        for write in self.remembered:
            write()
        if self.recorder is not None:
            garbage.write(self.recorder)

    def ended(self, how: int) -> None:
        self.settle()
        recorder = self.recorder
        if recorder is not None and recorder.words[f.H_ENDED] == 0:
            recorder.words[f.H_ENDED_HOW] = how
            recorder.words[f.H_ENDED] = clock()
        self.conclude()
        stacks.tidy()

    def conclude(self) -> None:
        """Do what is to be done last, once."""
        things, self.last_things = self.last_things, []
        for call in things:
            quietly(call)


def _inherited_threads() -> tuple[int, list[str]]:
    """In the child: how many threads its parent had, and the names of some that were not the main one."""
    found = [one for one in _threads_at_fork.values() if _thread_name(one) != THREAD]
    _threads_at_fork.clear()
    others = [one for one in found if type(one).__name__ != "_MainThread"]
    return len(found), [_thread_name(one)[:LONGEST_NAME] for one in others[:SHOWN_THREADS]]


def _thread_name(thread: threading.Thread) -> str:
    return str(attributes_of(thread).get("_name", ""))


def forget_old_workers(recorder: Recorder, workers: int) -> None:
    """Workers that are started anew every epoch would fill the disk: the oldest that ended in order make room."""
    folder, name = os.path.split(recorder.path)
    node, parent, *_ = name.rsplit(".", 4)
    prefix = f"{node}.{parent}."
    siblings = [other for other in os.listdir(folder) if other.startswith(prefix) and other.endswith(".rec")]
    surplus = len(siblings) - max(KEPT_WORKERS, 2 * workers)
    for other in sorted(siblings, key=lambda name: name.rsplit(".", 2)[1].zfill(20)):
        if surplus <= 0:
            return
        if other != name and _ended_in_order(os.path.join(folder, other)):
            surplus -= 1


def _ended_in_order(path: str) -> bool:
    """True if it was the recording of a worker whose loop returned; it is gone then."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = os.pread(fd, f.HEADER_SIZE, 0)
        finally:
            os.close(fd)
        if int.from_bytes(header[f.H_ENDED_HOW * f.WORD :][: f.WORD], "little") != f.ENDED_LOOP:
            return False
        os.unlink(path)
        os.unlink(path.removesuffix(".rec") + ".stacks")  # mostly, it is gone already
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def role_of_interpreter() -> int | None:
    """Main or launcher by what the interpreter runs; None for a child of multiprocessing, whose role shows later."""
    arguments = iter(sys.orig_argv[1:])
    program = ""
    for argument in arguments:
        if argument == "-m":
            program = next(arguments, "")
        elif argument == "-c":
            program = next(arguments, "")
            if "multiprocessing." in program or "--multiprocessing-fork" in sys.orig_argv:
                return None
        elif argument in ("-X", "-W"):
            next(arguments, "")
            continue
        elif argument.startswith("-"):
            continue
        else:
            program = os.path.basename(argument)
        break
    return f.ROLE_LAUNCHER if program in LAUNCHERS else f.ROLE_MAIN


process = Process()
