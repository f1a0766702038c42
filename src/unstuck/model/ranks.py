"""Where each rank of a run stands: in which collective and at which line, elsewhere, or at its end.

Live stacks know best. Then come what the recording says is open, torch's Flight Recorder, and an exception's frames.
"""

from __future__ import annotations

from typing import NamedTuple

from .distributed import Collective, Span
from .doing import COLLECTIVE, doing, place, user_frame
from .evidence import Evidence
from .look import Frame, Seen, Stack
from .phrases import short, who
from .places import Place
from .questions import is_users, user_line
from .recorded import Failure, Process
from .standing import main_stack

C10D = "torch/distributed/distributed_c10d.py"
DDP = "torch/nn/parallel/distributed.py"
TOGETHER = ("barrier", "monitored_barrier", "wait_for_everyone")  # spans in which one waits for all the others
BACKWARD = ("_engine_run_backward", "backward", "run_backward")
# How gloo, NCCL and the store say that another rank is gone, or did not come in time.
LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Socket closed",
    "Broken pipe",
    "remote process exited",
    "recvValue failed",
    "failed to pass monitoredBarrier",
)
LATE = ("Timed out waiting", "Watchdog caught collective operation timeout", "timed out", "Socket Timeout")


class Stand(NamedTuple):
    """Where one rank stands, or stood when it ended. `call` is empty outside of collectives."""

    rank: int
    process: Process | None  # as it is recorded
    seen: Seen | None  # live
    stack: Stack | None
    call: str = ""  # barrier, all_reduce, backward, forward …
    where: Place | None = None  # the user's line
    doing: str = ""  # of a live one
    failed: Failure | None = None  # what ended it
    ended: bool = False  # by itself, without an error

    @property
    def waits(self) -> bool:
        return bool(self.call)

    @property
    def pid(self) -> int:
        known = self.seen or self.process
        return known.pid if known is not None else 0

    @property
    def node(self) -> str:
        known = self.seen or self.process
        return known.node if known is not None else ""

    @property
    def name(self) -> str:
        """Rank 1 (pid 4242)."""
        known = self.seen or self.process
        return who(known) if known is not None else f"rank {self.rank}"

    @property
    def spot(self) -> str:
        """Backward at train.py:31."""
        return f"{self.call or 'code of its own'}{f' at {short(self.where)}' if self.where is not None else ''}"


def stand(evidence: Evidence) -> list[Stand]:
    """Every rank that is known, live or recorded, by rank."""
    live = {one.rank: one for one in evidence.processes or () if _is_rank(one)}
    told = {one.rank: one for one in evidence.ranks()}
    numbers = sorted(number for number in {*live, *told} if number is not None)
    return [_stand(evidence, number, told.get(number), live.get(number)) for number in numbers]


def waiting(evidence: Evidence) -> list[Stand]:
    """Ranks that stand in a collective."""
    return [one for one in stand(evidence) if one.waits]


def elsewhere(evidence: Evidence) -> list[Stand]:
    """Live ranks that stand in none."""
    return [one for one in stand(evidence) if not one.waits and one.seen is not None]


def unfinished(process: Process) -> Collective | None:
    """The first collective of the Flight Recorder that this rank has begun and not finished."""
    return next((one for one in process.collectives if not one.finished), None)


def lost_a_peer(failure: Failure | None) -> bool:
    """This rank was ended by the end of another: never a root."""
    return failure is not None and any(words in failure.message for words in LOST)


def timed_out(failure: Failure | None) -> bool:
    """In a collective, or in a meeting of the ranks."""
    return failure is not None and any(words in failure.message for words in LATE)


def listed(ranks: list[int]) -> str:
    """Rank 1; ranks 1 and 3; ranks 1, 2 and 3; 63 other ranks."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def told(waiting: list[Stand]) -> list[str]:
    """What the ranks wait in, a line for each place: `ranks 0, 2 and 3 wait in backward at train.py:31`."""
    spots: dict[str, list[int]] = {}
    for one in waiting:
        spots.setdefault(one.spot, []).append(one.rank)
    return [f"{listed(ranks)} wait{'s' * (len(ranks) == 1)} in {spot}" for spot, ranks in spots.items()]


def call_of(stack: Stack) -> tuple[str, Place | None]:
    """The collective that a waiting thread is in, as its user would call it, and the user's line."""
    own = user_frame(stack.calls)
    return _called([one for one in _up_to(stack.calls, own)]), place(own)


def _up_to(calls: list[Frame], own: Frame | None) -> list[Frame]:
    return calls if own is None else calls[: calls.index(own)]


def _called(inner: list[Frame]) -> str:
    """The outermost function of torch.distributed, else what DDP was doing."""
    public = [one.name for one in inner if C10D in one.file and not one.name.startswith("_")]
    if public:
        return public[-1]
    if any(one.name in BACKWARD for one in inner):
        return "backward"
    ddp = [one.name for one in inner if DDP in one.file]
    if "__init__" in ddp:
        return "DistributedDataParallel()"
    return "forward" if ddp else "a collective"


def _is_rank(seen: Seen) -> bool:
    return seen.role == "main" and seen.rank is not None and not seen.ended


def _stand(evidence: Evidence, rank: int, process: Process | None, seen: Seen | None) -> Stand:
    stack = main_stack(evidence, seen.pid) if seen is not None else None
    if seen is not None and stack is not None:
        what = doing(stack)
        call, where = call_of(stack) if what == COLLECTIVE else ("", place(user_frame(stack.calls)))
        return Stand(rank, process, seen, stack, call, where, what)
    if process is None:
        return Stand(rank, None, seen, None)
    failure = process.failure if process.failure is not None and process.failure.how == "uncaught" else None
    if process.ended is not None and failure is None and not process.alive:
        return Stand(rank, process, seen, None, ended=True)
    call, where = _recorded(process, failure)
    return Stand(rank, process, seen, None, call, where, failed=failure)


def _recorded(process: Process, failure: Failure | None) -> tuple[str, Place | None]:
    span = _open_span(process, failure)
    if span is not None:
        return span.name, span.where
    entry = unfinished(process)
    if entry is not None:
        return entry_name(entry), entry.where
    if failure is not None and (lost_a_peer(failure) or timed_out(failure)):
        return _raised_in(failure), user_line(failure)
    return "", None


def _open_span(process: Process, failure: Failure | None) -> Span | None:
    """A barrier it is in, or one that the exception came from which ended it."""
    spans = [one for one in process.spans if one.name in TOGETHER]
    return next((one for one in spans if one.ended is None or (failure is not None and one.failed)), None)


def entry_name(entry: Collective) -> str:
    """What the user's line called, where that is a name of theirs: DDP calls all_reduce from inside backward."""
    if entry.calls in BACKWARD:
        return "backward"
    if entry.calls in ("_wrapped_call_impl", "_call_impl", "forward"):
        return "forward"
    return "DistributedDataParallel()" if entry.calls == "__init__" else entry.operation


def _raised_in(failure: Failure) -> str:
    """By the frames of an exception, the innermost last."""
    inner = []
    for one in reversed(failure.frames):
        if is_users(one):
            break
        inner.append(Frame(one.file, one.line, one.function))
    return _called(inner)
