"""Where each rank of a run is: in which collective and at which line, elsewhere, or at its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ..evidence.basics import Place
from ..evidence.distributed import Collective, Phase, Span
from ..evidence.live import Frame, Seen, Stack
from ..evidence.loader import Loader, LoaderState
from ..evidence.process import Failure, Process
from ..wording.text import short, who
from .case import Case, is_users, once
from .rank_deaths import ABORTED, BY_ITSELF, FINISHED, TOLD_TO_GO, Death, deaths
from .stacks import COLLECTIVE, TRAINING, doing, place, user_frame, waits_for_gpu
from .standstill import LONG, idles, in_futex, main_stack, standing
from .torch_errors import PEER_GONE, TIMED_OUT, errors_of

# What a rank had done when it enqueued the collective that its GPU is still in.
#
# With NCCL a collective, and DDP's backward, only enqueues: the loop goes on, fetches batches and makes steps, until it
# has to wait for the GPU. What the recording says by then is ahead of where the rank really waits for the others.
CLOCKS = 0.0001  # seconds by which the Flight Recorder's clock and the recording's may differ


def as_of(process: Process, moment: float) -> Process:
    """The process as it was then, as far as that is known."""
    ahead = sum(_after(loader, moment) for loader in process.loaders if loader.optimizer_steps)
    return msgspec.structs.replace(
        process,
        loaders=[_loader(loader, process.phases, moment) for loader in process.loaders],
        phases=[_phase(phase, process, moment) for phase in process.phases if phase.at <= moment + CLOCKS],
        spans=[
            msgspec.structs.replace(span, ended=_then(span.ended, moment))
            for span in process.spans
            if span.at <= moment + CLOCKS
        ],
        optimizer_steps=_steps(process, ahead, moment),
    )


def _after(loader: Loader, moment: float, number: int | None = None) -> int:
    """Batches that came later, of all epochs or of one."""
    return sum(at > moment + CLOCKS for of, at in loader.arrived if number in (None, of))


def _then(ended: float | None, moment: float) -> float | None:
    return None if ended is None or ended > moment + CLOCKS else ended


def _stepped(process: Process, moment: float) -> bool:
    """It has made a step since."""
    return process.last_step is not None and process.last_step > moment + CLOCKS


def _steps(process: Process, ahead: int, moment: float) -> int:
    """One for each batch that came later, and the one after this call, as far as every batch makes a step."""
    if not _stepped(process, moment):
        return process.optimizer_steps
    batches = sum(loader.batches for loader in process.loaders if loader.optimizer_steps)
    each = min(process.optimizer_steps / batches, 1.0) if batches else 0.0
    return max(process.optimizer_steps - round((ahead + 1) * each), 0)


def _loader(loader: Loader, phases: list[Phase], moment: float) -> Loader:
    """A trainer's epoch may go on, with validation, when its loader has no more: what has not changed since stays."""
    if loader.now and loader.now_since <= moment + CLOCKS:
        return loader
    begun = [one for one in phases if one.loader == loader.number and one.at <= moment + CLOCKS]
    newest = max(begun, key=lambda one: one.at, default=None)
    if newest is None or newest.number_of_pass is None:
        return loader
    over = newest.ended is not None and newest.ended <= moment + CLOCKS
    batches = loader.pass_batches if newest.number_of_pass == loader.passes else newest.batches
    came = [at for of, at in loader.arrived if of == newest.number_of_pass and at <= moment + CLOCKS]
    return msgspec.structs.replace(
        loader,
        passes=newest.number_of_pass,
        batches=loader.batches - _after(loader, moment),
        pass_batches=batches - _after(loader, moment, newest.number_of_pass),
        now=LoaderState.BETWEEN_PASSES if over else LoaderState.IN_BODY,
        now_since=(newest.ended or 0.0) if over else max(came, default=newest.at),
    )


def _phase(phase: Phase, process: Process, moment: float) -> Phase:
    if _then(phase.ended, moment) is not None:
        return phase
    loader = next((one for one in process.loaders if one.number == phase.loader), None)
    later = _after(loader, moment, phase.number_of_pass) if loader is not None else 0
    steps = max(phase.steps - later - 1, 0) if _stepped(process, moment) else phase.steps
    return msgspec.structs.replace(phase, ended=None, left=False, batches=max(phase.batches - later, 0), steps=steps)


# Where each rank of a run is: in which collective and at which line, elsewhere, or at its end.
#
# Live stacks know best. Then come what the recording says is open, torch's Flight Recorder, and an exception's frames.
C10D = "torch/distributed/distributed_c10d.py"
DDP = "torch/nn/parallel/distributed.py"
TOGETHER = ("barrier", "monitored_barrier", "wait_for_everyone", "DistributedDataParallel")  # one waits for all there
BACKWARD = ("backward", "_engine_run_backward")
FORWARD = ("__call__", "_wrapped_call_impl", "_call_impl", "forward")
# Functions of accelerate and torch that people call, and that call a collective by another name.
CALLED = (
    "wait_for_everyone",
    "main_process_first",
    "local_main_process_first",
    "gather_for_metrics",
    "gather_object",
    "all_gather_object",
    "broadcast_object_list",
    "pad_across_processes",
    "save_state",
    "load_state",
)
A_COLLECTIVE = "a collective"
WRITING = 1.0  # seconds between the last that a process tells of itself and what is written at its end
MANY = 8  # ranks that are named one by one


class Stand(NamedTuple):
    """Where one rank is, or was when it ended. `call` is empty outside collectives."""

    rank: int
    process: Process | None  # as it is recorded
    seen: Seen | None  # live
    stack: Stack | None = None
    call: str = ""  # barrier, all_reduce, backward, forward …
    where: Place | None = None  # the user's line
    doing: str = ""  # of a live one
    death: Death | None = None

    @property
    def waits(self) -> bool:
        return bool(self.call)

    @property
    def ended(self) -> bool:
        """By itself, without an error."""
        return self.death is not None and self.death.how == FINISHED

    @property
    def sent_away(self) -> bool:
        """Its launcher ended it, because of another rank."""
        return self.death is not None and self.death.how == TOLD_TO_GO

    @property
    def failed(self) -> Failure | None:
        """The exception that ended it."""
        return self.death.failure if self.death is not None else None

    @property
    def pid(self) -> int | None:
        known = self.seen or self.process
        return known.pid if known is not None else None

    @property
    def node(self) -> str | None:
        known = self.seen or self.process
        return known.node if known is not None else None

    @property
    def name(self) -> str:
        """Rank 1 (pid 4242)."""
        known = self.seen or self.process
        return who(known) if known is not None else f"rank {self.rank}"

    @property
    def spot(self) -> str:
        """`backward at train.py:31`."""
        return f"{self.call or 'its own code'}{f' at {short(self.where)}' if self.where is not None else ''}"


@once
def stand(case: Case) -> list[Stand]:
    """Every rank that is known, live or recorded, by rank."""
    live = {one.rank: one for one in case.processes or () if _is_rank(one)}
    told = {one.rank: one for one in case.ranks}
    ended = {one.process.pid: one for one in deaths(case)} if told else {}
    numbers = sorted(number for number in {*live, *told} if number is not None)
    return [_stand(case, number, told.get(number), live.get(number), ended) for number in numbers]


@once
def waiting(case: Case) -> list[Stand]:
    """Ranks that are in a collective, or were when they failed in it."""
    return [one for one in stand(case) if one.waits]


@once
def elsewhere(case: Case) -> list[Stand]:
    """Live ranks that are in no collective."""
    return [one for one in stand(case) if not one.waits and one.seen is not None]


@once
def all_wait(case: Case) -> list[Stand]:
    """Where all ranks are, if each waits for others, has failed because of that, was stopped, or has ended. Else none.

    While a rank is anywhere else, or has crashed by itself, its own story explains that the others wait. Live ranks
    must have been there for long: in a healthy run, every rank waits in a collective now and then.
    """
    stands = stand(case)
    waits = any(one.waits and not one.sent_away for one in stands)
    rest = all(one.waits or one.ended or one.sent_away for one in stands)
    return stands if len(stands) > 1 and waits and rest and all(_for_long(case, one) for one in stands) else []


def traced(process: Process) -> list[Collective]:
    """Its Flight Recorder, unless the process made progress after that was read, or did not answer."""
    fresh = process.traced is not None and process.traced >= process.last_sign - WRITING
    return process.collectives if fresh and not process.trace_refused else []


def unfinished(process: Process) -> Collective | None:
    """The first collective of the Flight Recorder that this rank has begun and not finished."""
    return next((one for one in traced(process) if not one.finished), None)


def lost_a_peer(failure: Failure | None) -> bool:
    """This rank was ended by the end of another: never a root."""
    return failure is not None and any(one.kind in PEER_GONE for one in errors_of(failure))


def timed_out(failure: Failure | None) -> bool:
    """In a collective: what it waited for is the root."""
    return failure is not None and any(one.kind in TIMED_OUT for one in errors_of(failure))


def listed(ranks: Iterable[int]) -> str:
    """`rank 1`; `ranks 1 and 3`; `ranks 1, 2 and 3`; `63 ranks`."""
    known = list(ranks)
    if len(known) == 1:
        return f"rank {known[0]}"
    if len(known) > MANY:
        return f"{len(known)} ranks"
    return f"ranks {', '.join(map(str, known[:-1]))} and {known[-1]}"


def told(stands: list[Stand]) -> list[str]:
    """What ranks wait in, a line for each place: `ranks 0, 2 and 3 wait in backward at train.py:31`."""
    spots: dict[tuple[str, bool], list[int]] = {}
    for one in stands:
        if one.waits:
            spots.setdefault((one.spot, one.death is not None), []).append(one.rank)
    found = []
    for (spot, died), ranks in spots.items():
        waits = "waited" if died else "wait" if len(ranks) > 1 else "waits"
        found.append(f"{listed(ranks)} {waits} in {spot}" + (" and crashed there" if died else ""))
    ended = [one.rank for one in stands if one.ended]
    sent = [one.rank for one in stands if one.sent_away and not one.waits]
    found += [f"{listed(ended)} had reached the end of the script"] if ended else []
    return found + ([f"{listed(sent)} {'were' if len(sent) > 1 else 'was'} stopped by the launcher"] if sent else [])


def entry_name(entry: Collective) -> str:
    """What the user's line called: DDP calls all_reduce from inside backward, broadcast from inside forward."""
    if entry.calls in BACKWARD:
        return "backward"
    if entry.calls in FORWARD:
        return "forward"
    if entry.calls == "__init__":
        return "DistributedDataParallel"
    return entry.calls if entry.calls in CALLED else entry.operation


def _for_long(case: Case, one: Stand) -> bool:
    if one.seen is None or one.stack is None:
        return True
    return standing(case, one.seen, one.stack) >= LONG


def _is_rank(seen: Seen) -> bool:
    return seen.role == "main" and seen.rank is not None and not seen.ended


def _stand(case: Case, rank: int, process: Process | None, seen: Seen | None, ended: dict[int, Death]) -> Stand:
    stack = main_stack(case, seen.pid) if seen is not None else None
    if seen is not None and stack is not None:
        entry = _enqueued(stack, process) if not seen.halted else None
        if process is not None and entry is not None:
            then = as_of(process, entry.at)
            return Stand(rank, then, seen, stack, entry_name(entry), entry.where, COLLECTIVE)
        what = COLLECTIVE if _rests_in_step(seen, stack, process) else doing(stack)
        call, where = _of_calls(stack.calls)
        waits = what == COLLECTIVE and not seen.halted
        return Stand(rank, process, seen, stack, call if waits else "", where, what)
    if process is None:
        return Stand(rank, None, seen)
    death = ended.get(process.pid)
    unseen = process.alive and case.stall is None  # and it may well make progress
    if unseen or (death is not None and death.how == FINISHED):
        return Stand(rank, process, seen, death=death)
    call, where = _recorded(process, death)
    return Stand(rank, process, seen, None, call, where, death=death)


def _enqueued(stack: Stack, process: Process | None) -> Collective | None:
    """The collective that its GPU is in, while the thread waits for that GPU: with NCCL a call only enqueues.

    Whatever the thread uses of a core, and wherever it waits: torch knows what was enqueued first and is not finished.
    """
    return unfinished(process) if process is not None and waits_for_gpu(stack.frames) else None


def _rests_in_step(seen: Seen, stack: Stack, process: Process | None) -> bool:
    """Its native calls could not be seen, but it sleeps in a step, or torch knows what it has not finished."""
    task = seen.main_task
    blind = not any(one.native for one in stack.frames)
    rests = doing(stack) == TRAINING and idles(task, seen.looked) and in_futex(task) and stack.unchanged
    return rests and (blind or (process is not None and unfinished(process) is not None))


def _of_calls(calls: list[Frame]) -> tuple[str, Place | None]:
    """The collective that a thread is in, as its user would call it, and the user's line. Innermost first."""
    own = user_frame(calls)
    inner = calls if own is None else calls[: calls.index(own)]
    public = [one.name for one in inner if C10D in one.file and not one.name.startswith("_")]
    ddp = [one.name for one in inner if DDP in one.file]
    if public:
        return inner[-1].name if inner[-1].name in CALLED else public[-1], place(own)
    if any(one.name in BACKWARD for one in inner):
        return "backward", place(own)
    if "__init__" in ddp:
        return "DistributedDataParallel", place(own)
    return "forward" if ddp else A_COLLECTIVE, place(own)


def _recorded(process: Process, death: Death | None) -> tuple[str, Place | None]:
    """A rank that can no longer be seen: what it was in, unless something else ended it."""
    if death is not None and death.how in BY_ITSELF and death.status != ABORTED:
        return "", death.where
    span = _open_span(process, death)
    if span is not None:
        return span.name, span.where
    entry = unfinished(process)
    if entry is not None:
        return entry_name(entry), entry.where
    return _in_frames(process, death)


def _open_span(process: Process, death: Death | None) -> Span | None:
    """A barrier it is in, or one that the exception came from which ended it."""
    spans = [one for one in process.spans if one.name in TOGETHER]
    return next((one for one in reversed(spans) if one.ended is None or (death is not None and one.failed)), None)


def _in_frames(process: Process, death: Death | None) -> tuple[str, Place | None]:
    """By the calls it was in when an exception, or native code, ended it."""
    if death is None:
        return "", None
    places = death.failure.frames if death.failure is not None else process.crash or process.crash_beside
    frames = [Frame(one.file, one.line, one.function) for one in reversed(places)]
    call, where = _of_calls(frames)
    in_torch = bool(frames) and not is_users(place(frames[0]))
    return (call, where) if in_torch and call != A_COLLECTIVE else ("", where)
