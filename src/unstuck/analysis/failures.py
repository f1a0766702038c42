"""Deaths of workers, and exceptions by which a training ended: where each was raised, and over what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ..evidence import Exit
from ..evidence.basics import Place
from ..evidence.loader import Fetching, Loader
from ..evidence.process import Failure, Process
from ..wording.text import many, who
from .case import Case, Owner, is_users, once, user_line

# Workers that died while their loop still ran and took their main process along: for rules that say of what.
LOOP_RETURNED = "worker loop returned"  # how a worker that is no longer needed says goodbye
LEFT = "interpreter exit"  # how one does that leaves by itself, where it was not forked
NAMED = re.compile(r"\bpid(?:\(s\))? ([\d, ]+)\)")  # torch: "DataLoader worker (pid(s) 12, 13) exited unexpectedly"
# What the main process meets instead, by race, when it fetches a tensor from a worker that is gone.
BROKEN = ("ConnectionResetError", "ConnectionRefusedError", "BrokenPipeError", "EOFError", "FileNotFoundError")
SHARING = "/multiprocessing/"


class Death(NamedTuple):
    """How a worker ended, for whom it worked, and which of its loader's workers it was."""

    seen: Exit
    worker: Process
    main: Process
    loader: Loader

    @property
    def known_code(self) -> bool:
        """Whether the status is its own: a main process that is faster ends it while it is still leaving."""
        failure = self.main.failure
        return self.worker.ended_how != LEFT or failure is None or self.seen.at <= failure.at

    @property
    def fetching(self) -> Fetching | None:
        """What it was doing when it died."""
        return self.worker.fetching[0] if self.worker.fetching else None


@once
def worker_deaths(case: Case) -> list[Death]:
    """The first to go first, each once. One that died after its loop, or at whose death nobody failed, is not among."""
    first: dict[tuple[str, int, float], Death] = {}
    for seen in sorted(case.exits or (), key=lambda one: one.at):
        owner = case.owner_of(seen.node, seen.pid)
        if owner is not None:
            death = _death(case, seen, owner)
            first.setdefault((death.worker.node, death.worker.pid, death.worker.opened), death)
    return [one for one in first.values() if one.worker.ended_how != LOOP_RETURNED and _took_along(one)]


def _death(case: Case, seen: Exit, owner: Owner) -> Death:
    """A worker may have died before it could say that it is one, or before it had a recording."""
    main = owner.main
    known = case.process(main.node, seen.pid, seen.at)
    if known is None:
        known = Process(node=main.node, pid=seen.pid, parent=main.pid, role="worker")
    number = known.worker if known.worker is not None else owner.number
    worker = msgspec.structs.replace(known, role="worker", worker=number, rank=main.rank)
    return Death(seen, worker, main, owner.loader)


def _took_along(one: Death) -> bool:
    """The main process ended by it; or it has not ended at all, and the status alone says that something is wrong.

    Status 0 is also that of a worker which its loader ended for being slow to leave: only the main process's own words
    tell that it was still needed.
    """
    if any(_reports(failure, one) for failure in one.main.failures):
        return True
    of_its_own = any(failure.how == "uncaught" for failure in one.main.failures)
    return one.seen.status != 0 and one.main.ended is None and not of_its_own


def _reports(failure: Failure, one: Death) -> bool:
    """It names the worker. Or what was to come from a worker did not, and this one was gone by then, or leaving."""
    said = [failure.message, *(message for _, message in failure.causes)]
    pids = {int(pid) for text in said for match in NAMED.findall(text) for pid in match.split(",") if pid.strip()}
    if pids:
        return one.seen.pid in pids
    broken = failure.type in BROKEN or any(kind in BROKEN for kind, _ in failure.causes)
    gone = one.seen.status != 0 or one.seen.at <= failure.at or one.worker.ended_how == LEFT
    return broken and gone and any(SHARING in frame.file for frame in failure.frames)


# Exceptions that were raised while a batch was made and by which the training ended, with workers or without.


class Raised(NamedTuple):
    """One exception, and who raised it: a worker, or the main process itself where it has none."""

    failure: Failure
    process: Process
    main: Process
    loader: Loader | None

    @property
    def by(self) -> str:
        """worker 1 (pid 12) of rank 0, where there is one: a main process needs no name."""
        return f"DataLoader {who(self.process)}" if self.process.role == "worker" else who(self.process)


@once
def raised(case: Case) -> list[Raised]:
    """The first to raise first. What the main process caught, and went on after, is not among them."""
    found = [*_in_workers(case), *_in_mains(case)]
    return sorted(found, key=lambda one: one.failure.at)


def _in_mains(case: Case) -> Iterator[Raised]:
    """With num_workers=0. That a sample was being fetched is what the position in its stream says."""
    for main in case.mains:
        failure = main.failure
        if failure is not None and failure.how == "uncaught" and failure.position is not None:
            yield Raised(failure, main, main, main.newest_loader)


def _in_workers(case: Case) -> Iterator[Raised]:
    for worker in case.recording or ():
        owner = case.owner_of(worker.node, worker.pid)
        if worker.role != "worker" or owner is None or owner.main.failure is None:
            continue
        last = owner.main.failure
        ended_by = [(last.type, last.message), *last.causes]
        for one in worker.failures:
            if one.how == "fetch" and any(_is(one, *other) for other in ended_by):
                yield Raised(one, worker, owner.main, owner.loader)


def _is(failure: Failure, kind: str, message: str) -> bool:
    """torch puts the worker's type into the message it raises again; what it cannot rebuild becomes another type."""
    return f"Caught {failure.type} in DataLoader worker" in message or (failure.type, failure.message) == (
        kind,
        message,
    )


# Exceptions by which a training ended, each where it was raised: in a worker, in a thread, in the loop.
#
# For rules about what runs out: descriptors, mappings, memory of a GPU. It runs out in one process, and another one
# ends.
OWN_DECISION = ("KeyboardInterrupt", "SystemExit", "Exit")  # the last is how click and typer leave with a code
LOADER = "/utils/data/"  # torch's loader
STATEFUL = "/torchdata/"
PINNING = "/_utils/pin_memory.py"  # the thread between the workers and the loop
CARRIED = "Original Traceback"
FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
PIN_LOOP = "_pin_memory_loop"
PIN_THREAD_DIED = "Pin memory thread exited unexpectedly"


@once
def fatal(case: Case) -> list[Raised]:
    """The first to be raised first, which is the one to look at; the last is that of the main process itself."""
    found = [*raised(case), *_while_sending(case), *_while_pinning(case), *_in_loops(case)]
    return sorted(found, key=lambda one: one.failure.at)


def ended_by(main: Process) -> Failure | None:
    """The exception that ended a main process; none, if that was somebody's decision."""
    failure = main.failure
    crashed = failure is not None and failure.how == "uncaught" and failure.type not in OWN_DECISION
    return failure if crashed else None


def raised_at(failure: Failure) -> Place | None:
    """The user's innermost line.

    torch carries the exception of a worker or a replica along with its traceback as text: the line is in there
    then, and the frames say only where it was raised again.
    """
    if CARRIED in failure.message:
        told = [Place(file, int(line), function) for file, line, function in FRAME.findall(failure.message)]
        found = next((place for place in reversed(told) if is_users(place)), None)
        if found is not None:
            return found
    return user_line(failure)


def _in_loops(case: Case) -> Iterator[Raised]:
    for main in case.recording or ():
        failure = ended_by(main)
        if failure is not None and main.role in ("main", "launcher") and failure.position is None:
            yield Raised(failure, main, main, main.newest_loader)


def _while_pinning(case: Case) -> Iterator[Raised]:
    """The thread that takes batches from the workers has a traceback of its own; its loop is only told that it died."""
    for main in case.mains:
        final = ended_by(main)
        if final is not None and PIN_THREAD_DIED in final.message:
            yield from (Raised(one, main, main, main.newest_loader) for one in main.failures if pinning(one))


def pinning(failure: Failure) -> bool:
    """Python names a thread after what it runs; of a deep traceback only the innermost frames are kept."""
    inside = PIN_LOOP in failure.thread or any(PINNING in frame.file for frame in failure.frames)
    return failure.how == "thread" and inside


def _while_sending(case: Case) -> Iterator[Raised]:
    """A batch that cannot be sent is dropped: its main process waits for it for ever, or meets a broken connection.

    Then it has not read what the worker raised afterwards, either.
    """
    for worker in case.recording or ():
        owner = case.owner_of(worker.node, worker.pid)
        if owner is not None:
            yield from (
                Raised(one, worker, owner.main, owner.loader) for one in worker.failures if _suffers(owner.main, one)
            )


def _suffers(main: Process, one: Failure) -> bool:
    """It has not come to its end, or it ended by an exception in the loader."""
    final = ended_by(main)
    if final is None:
        return main.ended is None and one.how != "fetch"
    in_loader = any(LOADER in frame.file or STATEFUL in frame.file for frame in final.frames)
    return in_loader and one.at <= final.at and (one.how != "fetch" or final.type in BROKEN)


# Exceptions that only a decoder raises over the content of a file: which of those that ended a run are such.
UNIDENTIFIED = "UnidentifiedImageError"
# Raised by Pillow's readers these are about the file's content; raised elsewhere they may be about anything.
OF_PILLOW = ("OSError", "SyntaxError", "error")
READERS = re.compile(r"/PIL/(ImageFile|\w+ImagePlugin)\.py$")
SAVING = ("save", "_save", "_save_all")  # the same files hold Pillow's writers
OF_SYSTEM = re.compile(r"\[Errno \d+\]")  # the file could not be read at all
# The types of zlib and of struct are both called "error": only the words tell.
COMPRESSED = {
    "error": ("while decompressing data",),
    "BadGzipFile": ("",),
    "LZMAError": ("",),
    "EOFError": ("Compressed file ended before the end-of-stream marker", "Ran out of input"),
    "OSError": ("Invalid data stream",),
    "UnpicklingError": ("pickle data was truncated",),
}
QUOTED = re.compile(r"'([^'\n]+)'")


@once
def undecoded(case: Case) -> list[Raised]:
    """The first first."""
    return [one for one in raised(case) if _damaged(one.failure)]


def path_of(failure: Failure) -> str:
    """The file that the message names, else the first that was in hand."""
    named = [one for one in QUOTED.findall(failure.message) if "/" in one]
    return (named or paths_of(failure) or [""])[0]


def paths_of(failure: Failure) -> list[str]:
    """What a decoder has in hand is bytes, some of which look like a path."""
    return [one for one in failure.paths if one.isprintable()]


def _damaged(failure: Failure) -> bool:
    if failure.type == UNIDENTIFIED:
        return True
    if OF_SYSTEM.match(failure.message):
        return False
    if any(words in failure.message for words in COMPRESSED.get(failure.type, ())):
        return True
    return failure.type in OF_PILLOW and _in_pillow(failure)


def _in_pillow(failure: Failure) -> bool:
    last = failure.frames[-1] if failure.frames else None
    saving = any("/PIL/" in frame.file and frame.function in SAVING for frame in failure.frames)
    return last is not None and READERS.search(last.file) is not None and not saving


# What the descriptors of a process were spent on when it had none left.
SHARED = "shared memory"
OPENED = ("file", "socket", "pipe")
WORDS = ("Too many open files", "received 0 items of ancdata", "[Errno 24]")
COUNTED = 4096  # descriptors that the recording looks at, however many there may be
# torch complains up to ten descriptors early, and some are closed again on the way out of the exception.
ALL_BUT = 0.75
MOST = 0.5  # of all that are open: what takes more than the rest together is what they were spent on


@once
def ran_out(case: Case) -> list[Raised]:
    """Failures for want of a descriptor in the very process that had none left, the first one first.

    The text alone is not enough: a main process repeats what its worker said.
    """
    return [one for one in fatal(case) if _says_so(one.failure) and _none_left(one.failure)]


def _says_so(failure: Failure) -> bool:
    texts = [failure.message, *(message for _, message in failure.causes)]
    return any(word in text for word in WORDS for text in texts)


def _none_left(failure: Failure) -> bool:
    limit = failure.descriptor_limit or 0
    return limit > 0 and sum(failure.descriptors.values()) >= ALL_BUT * min(limit, COUNTED)


def spent_on(failure: Failure) -> str | None:
    """The kind that takes most of them; none, if there is no such."""
    kinds = failure.descriptors
    kind = max(kinds, key=lambda one: kinds[one], default=None)
    return kind if kind is not None and kinds[kind] >= MOST * sum(kinds.values()) else None


def listed(failure: Failure) -> str:
    """114 files, 9 pipes, 2 shared memory."""
    kinds = sorted(failure.descriptors.items(), key=lambda kind: -kind[1])
    return ", ".join(many(count, kind) if kind in OPENED else f"{count:,} {kind}" for kind, count in kinds)


def over_time(case: Case, process: Process) -> list[tuple[float, int]]:
    """How many descriptors a process had open, and when that was seen."""
    host = case.host_of(process)
    return [
        (sample.at, memory.descriptors)
        for sample in (host.samples if host is not None else ())
        for memory in sample.processes
        if memory.pid == process.pid and memory.descriptors is not None
    ]
