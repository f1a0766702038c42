"""What each rank is doing, and what that means in this run."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from ..analysis.case import Case
from ..analysis.first_batch import before_first
from ..analysis.passes import in_words, passing_over
from ..analysis.progress import helped, moves_itself
from ..analysis.ranks import Stand, listed, stand
from ..analysis.stacks import (
    IDLE,
    OWN,
    STARTING,
    TRAINING,
    USER,
    WAITING,
    doing,
    fetch_of,
    place,
    user_frame,
    waits_for_user,
)
from ..analysis.standstill import (
    descendants,
    gets_on,
    last_handed,
    main_stack,
    mains,
    moves,
    recorded,
    standing,
    waits_in,
)
from ..evidence.distributed import Phase
from ..evidence.epochs import CHECKPOINT
from ..evidence.live import Gpu, Seen, Stack
from ..evidence.loader import Loader, LoaderState
from ..evidence.process import Process, Saving
from ..report import Activity
from ..wording.text import percent, short, size

# Between which marks of the log each rank stands, and what that means in this run.
#
# What comes after what is not the same everywhere: in a plain loop validation follows the training epoch, in Lightning
# it lies inside. So nothing is read out of the marks that this run has not really gone through.
FEW = 8  # other ranks that are asked what came next: there may be a thousand


class Position(NamedTuple):
    """Of one process, by the stretches that have marks."""

    inside: Phase | None  # the innermost that goes on
    after: Phase | None  # the newest that ended, inside that one or, if there is none, at all
    saved: bool  # a checkpoint was, since then


def position(process: Process) -> Position:
    marked = _marked(process)
    inside = next((one for one in reversed(marked) if one.ended is None), None)
    since = inside.at if inside is not None else 0.0
    ended = [one for one in marked if one.ended is not None and one.ended >= since]
    after = max(ended, key=lambda one: one.ended or 0.0, default=None)
    mark = max(since, (after.ended or 0.0) if after else 0.0)
    return Position(inside, after, any(one.kind == CHECKPOINT and one.at >= mark for one in process.phases))


def progress(process: Process) -> tuple[int, int]:
    """How far it has come: its epoch, and how many marks it has set in it. Of two ranks, the lower is behind."""
    marked = _marked(process)
    epoch = max((one.number for one in marked), default=-1)
    return epoch, sum(1 + (one.ended is not None) for one in marked if one.number == epoch)


def _marked(process: Process) -> list[Phase]:
    return [one for one in process.phases if one.kind != CHECKPOINT or one.told]


def between(process: Process, others: list[Process]) -> str:
    """In EPOCH 0 TRAINING, batch 5 of 8; after EPOCH 0 TRAINING END, before EPOCH 0 VALIDATION START."""
    if not process.phases:
        return ""
    inside, after, saved = position(process)
    behind = f"after {_name(after)} END" if after is not None else ""
    kept = " and a checkpoint" if saved else ""
    if inside is not None:
        parts = [f"in {_name(inside)}", _batch(process, inside), behind + kept if behind else ""]
        return ", ".join(part for part in parts if part)
    if after is None:
        return "before the first EPOCH START"
    coming = _following(after, [process, *others[:FEW]])
    return behind + kept + (f", before {coming} START" if coming else "")


def meaning(case: Case) -> str:
    """For a run of several ranks in which some wait: who is behind, and whether that is its own doing."""
    stands = [one for one in stand(case) if one.process is not None and one.process.phases]
    waiting = [one for one in stands if one.waits]
    if len(stands) < 2 or not waiting or any(one.death is not None and not one.ended for one in stands):
        return ""
    gone = [one for one in stands if one.ended]
    if gone:
        return f"{_where(gone, stands)}, and has ended; {_where(waiting, stands)}."
    own = [one for one in stands if not one.waits and one.seen is not None]
    if own:
        rest = "What holds it up is its own: its data, its computing, or other work."
        return f"{_where(waiting, stands)}; {_where(own, stands)}, and in no collective. {rest}"
    return _parted(stands)


def _parted(stands: list[Stand]) -> str:
    """All of them wait."""
    places = {one.rank: progress(one.process) for one in stands if one.process is not None}
    last = min(places.values())
    behind = [one for one in stands if places[one.rank] == last]
    ahead = [one for one in stands if places[one.rank] != last]
    if ahead:
        parted = "They took different paths and wait for each other."
        return f"{_where(ahead, stands)}; {_where(behind, stands, 'is still', 'are still')}. {parted}"
    spots = {one.spot for one in stands}
    if len(spots) == 1:
        return f"all ranks are {_between(stands[0], stands)}, in the same call, {stands[0].spot}."
    where = ", ".join(f"rank {one.rank} in {one.spot}" for one in stands[:8])
    return f"all ranks are {_between(stands[0], stands)}, in different calls: {where}."


def _where(ranks: list[Stand], stands: list[Stand], one: str = "is", many: str = "are") -> str:
    """Rank 0 stands after EPOCH 0 TRAINING END, in barrier at train.py:52."""
    places: dict[str, list[int]] = {}
    for each in ranks:
        spot = f", in {each.spot}" if each.waits else ""
        places.setdefault(_between(each, stands) + spot, []).append(each.rank)
    return "; ".join(f"{listed(who)} {one if len(who) == 1 else many} {place}" for place, who in places.items())


def _between(one: Stand, stands: list[Stand]) -> str:
    others = [other.process for other in stands if other.process is not None and other is not one]
    return between(one.process, others) if one.process is not None else ""


def _name(phase: Phase) -> str:
    return f"EPOCH {phase.number} {phase.kind.upper()}".rstrip()


def _batch(process: Process, phase: Phase) -> str:
    loader = next((one for one in process.loaders if one.number == phase.loader), None)
    if loader is None or phase.number_of_pass != loader.passes:
        return ""
    of = f" of {loader.length:,}" if loader.length else ""
    return f"waiting for batch {loader.pass_batches + 1:,}{of}" if _waits_for_data(loader) else _nth(loader, of)


def _waits_for_data(loader: Loader) -> bool:
    return loader.now in (LoaderState.WAITING, LoaderState.ABOUT_TO_ASK, LoaderState.STARTING) and (
        loader.length is None or loader.pass_batches < loader.length
    )


def _nth(loader: Loader, of: str) -> str:
    return f"batch {loader.pass_batches:,}{of}" if loader.pass_batches else ""


def _following(after: Phase, processes: list[Process]) -> str:
    """The mark that comes next, as it came on another rank, or in an earlier epoch."""
    for process in processes:
        marked = _marked(process)
        for one, following in pairwise(marked):
            same = one.kind == after.kind and one.ended is not None and following.at >= one.ended
            if same and (process is not processes[0] or one is not after):
                number = after.number + following.number - one.number
                return _name(Phase(kind=following.kind, number=number, at=0.0))
    return ""


# What each rank is doing, from its recording, from a look at it, or from both.


def activities(case: Case) -> list[Activity]:
    seen = {(main.node, main.pid): (main, stack) for main, stack in mains(case)}
    found = []
    for process in case.mains:
        found += _recorded(process, case, seen.get(process.identity))
    known = {process.identity for process in case.mains}
    return found + [_seen(case, main, stack) for identity, (main, stack) in seen.items() if identity not in known]


def _recorded(process: Process, case: Case, seen: tuple[Seen, Stack] | None) -> list[Activity]:
    newest = process.newest_loader
    found = []
    others = [one for one in case.mains if one is not process]
    if seen is not None and process.alive:
        look = _seen(case, *seen)
        have, need = (newest.batches, newest.length) if newest is not None else (None, None)
        unit = "batches" if newest is not None else ""
        stands = between(process, others)
        found.append(
            Activity(process.rank, look.doing, look.since_s, look.moving, have, need, unit, live=True, between=stands)
        )
    elif newest is not None:
        alive, stands = process.alive, between(process, others)
        have, need = newest.batches, newest.length
        found.append(Activity(process.rank, newest.now, newest.now_since, alive, have, need, "batches", between=stands))
    elif process.alive and before_first(case, process):  # a generator that is no DataLoader
        began = min(one.at for one in process.sources)
        text = f"before the first batch: {before_first(case, process)}"
        found.append(Activity(process.rank, text, began, moving=True, live=True))
    found += [
        Activity(process.rank, one.name, one.since, process.alive, one.have, one.need or None, one.unit)
        for one in process.progress
    ]
    found += [
        Activity(process.rank, in_words(one), one.since, moving=True, have=one.skipped, need=one.of, unit="batches")
        for one in passing_over(process)
    ]
    if process.alive:
        found += [Activity(process.rank, _saving(one), one.since, moving=True, live=True) for one in process.saving]
    return found


def _saving(one: Saving) -> str:
    """`saving /runs/7/step-200.pt, 1.2 GiB of about 4.6 GiB, 80 MiB/s`."""
    aside = " in the background" if one.background else ""
    text = f"saving {one.path}{aside}{f' ({short(one.where)})' if one.where is not None else ''}"
    if not one.size:
        return text
    of = f" of about {size(one.expected)}" if one.expected else ""
    return f"{text}, {size(one.size)}{of} so far, {size(one.size / max(one.seconds, 0.001))}/s"


def _seen(case: Case, main: Seen, stack: Stack) -> Activity:
    below = [one for one in descendants(case, main.pid) if one.role != "watcher"]
    moving = moves_itself(main, stack) or helped(case, main, stack)
    handed = last_handed(case, main) if doing(stack) == WAITING and case.stall is None else None
    since = standing(case, main, stack) if handed is None else handed
    return Activity(main.rank, description(case, main, stack, below), round(since, 1), moving, live=True)


def description(case: Case, main: Seen, stack: Stack, below: list[Seen]) -> str:
    """In words: what for, at which line, and what moves meanwhile."""
    what = doing(stack)
    if waits_for_user(main, stack):
        return USER
    line = user_frame(stack.calls)
    words = [what if what != OWN else "running" if moves_itself(main, stack) else waits_in(main.main_task)]
    if what == TRAINING:  # one that stands there mostly waits for other ranks
        words[0] = "computing" if moves_itself(main, stack) or moves(main) else "blocked inside a step"
    if line is not None:
        words.append(f"at {short(place(line))} ({line.name})")
    counts = moves_itself(main, stack) or helped(case, main, stack)
    moved = [one for one in (main, *below) if gets_on(one) or moves(one)] if counts else []
    told = _movement(moved, main)
    if what in (WAITING, STARTING):
        told = f"workers: {_workers(case, below)}" if below else told
    parts = [_before_the_first(case, main) + " ".join(words), told, _fed(case, main), _gpus(case, main)]
    return "; ".join(part for part in parts if part)


def _before_the_first(case: Case, main: Seen) -> str:
    """A busy processor and an idle GPU are the normal picture of a run that has not begun to train."""
    process = recorded(case, main)
    began = process is None or process.optimizer_steps or any(loader.batches for loader in process.loaders)
    return "" if began else "before the first batch: "


def _fed(case: Case, main: Seen) -> str:
    """Before the first batch: documents read, tokens made, how full the buffer is and when it will be."""
    process = recorded(case, main)
    return before_first(case, process) if process is not None else ""


def _gpus(case: Case, main: Seen) -> str:
    """The GPUs whose memory it holds."""
    own = [one for one in case.gpus or () if main.pid in one.processes]
    return ", ".join(f"GPU {one.number}{_busy(one)} {size(one.processes[main.pid])} held" for one in own)


def _busy(gpu: Gpu) -> str:
    return "" if gpu.busy is None else f" {percent(gpu.busy)} busy,"


def _movement(moved: list[Seen], main: Seen) -> str:
    looked = max(main.looked, 0.1)
    cpu, read, written = (sum(getattr(one, name) for one in moved) / looked for name in ("cpu", "read", "written"))
    grown = sum(max(one.anonymous_grown, 0) for one in moved) / looked
    parts = [f"{cpu:.1f} cores"] if cpu >= 0.05 else []
    parts += [f"reads {size(read)}/s"] if read >= 1 else []
    parts += [f"writes {size(written)}/s"] if written >= 1 else []
    parts += [f"memory grows {size(grown)}/s"] if grown >= 1 << 16 else []
    return ", ".join(parts)


def _workers(case: Case, below: list[Seen]) -> str:
    """`2 idle, 1 at ds.py:12 (read)`."""
    told: dict[str, int] = {}
    for one in below:
        stack = main_stack(case, one.pid)
        if one.role == "worker":
            told[_worker(one, stack)] = told.get(_worker(one, stack), 0) + 1
    return ", ".join(f"{count} {what}" for what, count in told.items())


def _worker(seen: Seen, stack: Stack | None) -> str:
    if seen.state in ("T", "t"):
        return "stopped"
    if stack is None:
        return "unseen"
    if doing(stack) == IDLE:
        return "idle"
    inside = fetch_of(stack)
    line = user_frame(inside[1] if inside else stack.calls)
    return f"at {short(place(line))}" if line is not None else doing(stack)
