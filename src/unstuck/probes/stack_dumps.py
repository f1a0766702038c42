"""Stacks of every thread by py-spy: Python's own at the first look, native ones too at the second.

Where ptrace is refused, a recorded process writes its own, when asked by the signal it has registered.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from ..analysis.case import is_users
from ..evidence.basics import Place
from ..evidence.live import Frame, Stack
from ..evidence.process import Process
from ..inside.format import THREAD
from ..safe_files import open_plain
from . import kernel, owners, source_code

PATIENCE = 8.0  # seconds for one process; it takes a quarter of one
AT_ONCE = 4
ATTEMPTS = 3
STOPPED = "TtZX"
OURS = "/unstuck/inside/"  # a guest is not part of what the run does
UNCLEAR = "py-spy: "
PTRACE = "ptrace is refused here"
SILENT = "py-spy gave no answer"
# Locals that torch and a few libraries keep: who a worker is, which sample it has, which lock it wants.
KEPT = {
    "torch/utils/data/_utils/worker.py": ("worker_id", "num_workers"),
    "torch/utils/data/_utils/fetch.py": ("idx", "possibly_batched_index"),
    "torch/utils/cpp_extension.py": ("build_directory",),
    "filelock": ("lock_filename", "self"),
    "torch/multiprocessing/spawn.py": ("i",),
    "torch/distributed/rendezvous.py": ("hostname", "port", "rank", "world_size"),
    "torch/distributed/distributed_c10d.py": ("rank", "world_size", "init_method"),
    "loops/evaluation_loop.py": ("batch_idx",),  # of Lightning
    "transformers/trainer.py": ("epoch", "step"),
}
SHOWN = 128  # characters of a local variable that py-spy shows, times how often it is asked for locals
RANKS = ("rank", "local_rank", "global_rank")  # and these of anybody's, where they are plain numbers
# Seconds for a process to answer a signal: one that is stopped, or inside a system call that cannot be left, does not.
SIGNAL_PATIENCE = 1.0
SIGNAL_LONGEST = 5.0  # seconds for all of it
LARGEST_ANSWER = 16 << 20  # bytes
_THREAD = re.compile(r"^(?P<current>Current thread|Thread) 0x(?P<id>[0-9a-f]+)(?: \[(?P<name>.*)\])?")
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')


class _Local(msgspec.Struct):
    name: str
    repr: str | None = None


class _Frame(msgspec.Struct):
    name: str
    filename: str
    line: int = 0
    module: str | None = None
    locals: list[_Local] | None = None


class _Thread(msgspec.Struct):
    pid: int
    frames: list[_Frame]
    thread_name: str | None = None
    os_thread_id: int | None = None
    thread_id: int = 0
    owns_gil: bool = False


_decoder = msgspec.json.Decoder(list[_Thread])


class Said(NamedTuple):
    """py-spy's own words about one process, or the reason why there are none."""

    answer: bytes = b""
    refused: str = ""


class Dump(msgspec.Struct, frozen=True):
    """What py-spy gave for one process: its threads, or the reason why not."""

    threads: list[Stack] = []
    refused: str = ""


def dumps(pids: Iterable[int]) -> dict[int, Dump]:
    """Python's stacks of all these processes, read without pausing anybody.

    A pause wakes every thread of a process, and the kernel would no longer know for how long each had been asleep.
    """
    return _of_all(pids, lambda program, pid: _read(program, pid, ("--nonblocking",)))


def native_dumps(pids: Iterable[int]) -> dict[int, Dump]:
    """The same with native calls. It pauses each for a quarter of a second; those that are stopped cannot be paused."""
    return _of_all(pids, _native)


def _of_all(pids: Iterable[int], dump: Callable[[str, int], Said]) -> dict[int, Dump]:
    program = py_spy()
    wanted = list(pids)
    if program is None:
        return {pid: Dump(refused="py-spy is not installed beside unstuck") for pid in wanted}
    silent: list[int] = []

    def one(pid: int) -> Said:
        if len(silent) >= AT_ONCE:  # it will not answer for the others either, and each would cost as much again
            return Said(refused=f"{SILENT} for others, and was not asked again")
        found = dump(program, pid)
        if found.refused.startswith(SILENT):
            silent.append(pid)
        return found

    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = dict(zip(wanted, pool.map(one, wanted), strict=True))
    return _understood(said)


def _understood(said: dict[int, Said]) -> dict[int, Dump]:
    """Each answer is read with the rights of the process's own user: it names source files, which are looked into."""
    found: dict[int, Dump] = {}
    for owner, pids in owners.grouped(said).items():
        mine = {pid: said[pid] for pid in pids}
        try:
            found |= owners.as_owner(owner, lambda mine=mine: _dumps(mine, look=True), dict[int, Dump])  # type: ignore[misc]
        except owners.Refused:  # what belongs to it is left out, which is told elsewhere; its stacks are the kernel's
            found |= _dumps(mine, look=False)
    return {pid: found[pid] for pid in said}


def _dumps(said: dict[int, Said], *, look: bool) -> dict[int, Dump]:
    return {pid: _dump(one, look=look) for pid, one in said.items()}


def _dump(said: Said, *, look: bool) -> Dump:
    if said.refused:
        return Dump(refused=said.refused)
    try:
        return Dump(threads=_threads(said.answer, look=look))
    except (ValueError, RecursionError) as error:
        return Dump(refused=f"py-spy's answer cannot be read ({error})")


def py_spy() -> str | None:
    """The one that was installed with us comes first."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def _native(program: str, pid: int) -> Said:
    seen = kernel.stat(pid)
    if seen is None or seen.state in STOPPED:
        return _read(program, pid, ("--nonblocking",))
    found = _read(program, pid, ("--native",))
    hopeless = PTRACE in found.refused or found.refused.startswith(SILENT)
    # Not every build of Python can be unwound.
    return found if not found.refused or hopeless else _read(program, pid, ())


def _read(program: str, pid: int, how: tuple[str, ...]) -> Said:
    for attempt in range(ATTEMPTS):
        try:
            ended = subprocess.run(command(program, pid, *how), capture_output=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            return Said(refused=f"{SILENT} within {PATIENCE:.0f} s")
        except OSError as error:
            return Said(refused=f"py-spy could not be started ({error.strerror})")
        if ended.returncode == 0:
            break
        why = reason(ended.stderr.decode("utf-8", "replace"))
        # A stack that changes while it is read may need another try.
        if attempt == ATTEMPTS - 1 or not why.startswith(UNCLEAR):
            return Said(refused=why)
    return Said(ended.stdout)


def whole_local(pid: int, file: str, name: str, longest: int) -> str:
    """A local variable of a call in such a file, as py-spy shows it, that long if need be. Empty: it is not there."""
    program = py_spy()
    more = ("--locals",) * (longest // SHOWN)
    said = _read(program, pid, ("--nonblocking", *more)) if program is not None else Said()
    found = [one for one in threads(said.answer) if one.tid == pid] if said.answer else []
    frames = [frame for stack in found for frame in stack.calls if file in frame.file]
    return next((frame.locals[name] for frame in frames if name in frame.locals), "")


def is_cut(shown: str, longest: int = SHOWN) -> bool:
    return len(shown) >= longest and shown.endswith(("...", '..."', "...'"))


def command(program: str, pid: int, *how: str) -> list[str]:
    return [program, "dump", "--pid", str(pid), "--json", "--locals", *how]


def threads(said: bytes) -> list[Stack]:
    """The stacks in py-spy's answer; none where it gave none."""
    try:
        return _threads(said, look=True)
    except (ValueError, RecursionError):
        return []


def _threads(said: bytes, *, look: bool) -> list[Stack]:
    """`look` into the source of the program, for what its loops go over."""
    every = _decoder.decode(said)
    return [_stack(one, alone=len(every) == 1, look=look) for one in every if one.thread_name != THREAD]


def reason(said: str) -> str:
    """py-spy's words for people, by what they can do about it."""
    lowered = said.lower()
    if "permission denied" in lowered or "operation not permitted" in lowered or "eperm" in lowered:
        scope = _scope()
        if scope in ("1", "2", "3"):
            return f"{PTRACE} (kernel.yama.ptrace_scope is {scope})"
        return f"{PTRACE} (no CAP_SYS_PTRACE)"
    if "no such process" in lowered or "no such file" in lowered:
        return "it has ended"
    if "failed to find python" in lowered or "python version" in lowered:
        return "it is no Python that py-spy can read"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"{UNCLEAR}{lines[0][:200]}" if lines else "py-spy failed without a message"


def _scope() -> str:
    try:
        return Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        return ""


def _stack(thread: _Thread, *, alone: bool, look: bool) -> Stack:
    """Before Python 3.11, py-spy knows a thread's number only if it pauses the process: the main one's is its pid."""
    is_main = alone or thread.thread_name == "MainThread"
    return Stack(
        pid=thread.pid,
        tid=thread.os_thread_id or (thread.pid if is_main else 0),
        name=thread.thread_name or "",
        ident=thread.thread_id,
        frames=[_frame(one, look=look) for one in thread.frames if OURS not in one.filename],
        holds_gil=thread.owns_gil,
    )


def _frame(frame: _Frame, *, look: bool) -> Frame:
    kept = next((names for part, names in KEPT.items() if part in frame.filename), ())
    known = {one.name: one.repr or "" for one in frame.locals or () if one.name in kept or _is_rank(one)}
    return Frame(
        file=frame.module or frame.filename,
        line=frame.line,
        function=frame.name,
        native=frame.module is not None,
        locals=known,
        loops=_loops(frame) if look else {},
        yields=look and _is_so(source_code.yields, frame),
        repeats=look and _is_so(source_code.repeats, frame),
    )


def _loops(frame: _Frame) -> dict[str, str]:
    """Of the user's own code only: a library's endless loops are its own business."""
    if not _is_users(frame):
        return {}
    return source_code.gone_over(frame.filename, frame.line, {one.name: one.repr or "" for one in frame.locals or ()})


def _is_so(asked: Callable[[str, int], bool], frame: _Frame) -> bool:
    try:
        return _is_users(frame) and asked(frame.filename, frame.line)
    except RecursionError:  # code that a program has written, deeper than anybody would
        return False


def _is_users(frame: _Frame) -> bool:
    return frame.module is None and is_users(Place(frame.filename, frame.line, frame.name))


def _is_rank(one: _Local) -> bool:
    return one.name in RANKS and (one.repr or "").isdigit()


def joined(before: dict[int, Dump], after: dict[int, Dump]) -> list[Stack]:
    """Both looks in one: what each thread does, and what it did."""
    earlier = {_key(one): one for dump in before.values() for one in dump.threads}
    found = [_after(earlier.get(_key(one)), one) for dump in after.values() for one in dump.threads]
    seen = {one.pid for one in found}
    return found + [one for dump in before.values() for one in dump.threads if one.pid not in seen]


def _key(one: Stack) -> tuple[int, int]:
    return one.pid, one.ident or one.tid


def _after(before: Stack | None, now: Stack) -> Stack:
    if before is None:
        return now
    return msgspec.structs.replace(now, before=before.frames, held_gil=before.holds_gil)


def own_stacks(process: Process, folder: Path) -> list[Stack]:
    """The stacks of one recorded process, by its own hand. Empty where it cannot be asked, or does not answer.

    An unregistered process would die of the signal: it is sent only if the recording says registered, for this very
    process of this node, and the kernel says caught, at this moment. It is one of those that a recorded process
    registers: a damaged or forged recording can ask for no other.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return []
    try:
        seen = kernel.stat(process.pid)
        registered = signal.SIGRTMIN <= process.stack_signal <= signal.SIGRTMAX
        node = os.uname().nodename
        if seen is None or process.node != node or not registered or not _caught(process.pid, process.stack_signal):
            return []
        named = f"{glob.escape(node)}.*.{process.pid}.{seen.started}.rec"
        recording = next((folder / "recordings").glob(named), None)
        if recording is None:
            return []
        with os.fdopen(open_plain(recording.with_suffix(".stacks")), "rb") as answer:
            if os.fstat(answer.fileno()).st_uid != kernel.status(process.pid).uid:  # somebody else's word about it
                return []
            before = os.fstat(answer.fileno()).st_size
            signal.pidfd_send_signal(handle, process.stack_signal)
            return _written(process.pid, _answer(answer, before))
    except OSError:
        return []
    finally:
        os.close(handle)


def _caught(pid: int, number: int) -> bool:
    return bool(kernel.status(pid).caught >> (number - 1) & 1)


def _answer(file: IO[bytes], before: int) -> str:
    """What was added, once nothing more is."""
    until = time.monotonic() + SIGNAL_PATIENCE
    size = before
    while time.monotonic() < until:
        time.sleep(0.05)
        now = os.fstat(file.fileno()).st_size
        if now == size > before:
            break
        size = now
    file.seek(before)
    return file.read(LARGEST_ANSWER).decode("utf-8", "replace")


def _written(pid: int, text: str) -> list[Stack]:
    """faulthandler's format. The thread that wrote is the main one: the kernel gives it a process's signals first."""
    found: list[Stack] = []
    tid = 0
    frames: list[Frame] = []
    for line in [*text.splitlines(), "Thread 0x0"]:
        thread, frame = _THREAD.match(line), _FRAME.match(line)
        if thread is not None:
            if frames:
                found.append(Stack(pid=pid, tid=tid, frames=frames, before=frames))
            tid, frames = pid if thread["current"] != "Thread" else int(thread["id"], 16), []
        elif frame is not None and OURS not in frame["file"]:
            frames.append(Frame(file=frame["file"], line=int(frame["line"]), function=frame["function"]))
    return found
