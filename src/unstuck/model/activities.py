"""What each rank is doing, from its recording, from a look at it, or from both."""

from __future__ import annotations

from .doing import IDLE, OWN, STARTING, TRAINING, USER, WAITING, doing, fetch_of, place, user_frame, waits_for_user
from .evidence import Evidence
from .feeding import before_first
from .look import Gpu, Seen, Stack
from .marks import between
from .passing_over import in_words, passing_over
from .phrases import percent, short, size
from .progress import helped, moves_itself
from .questions import newest_loader
from .recorded import Process
from .report import Activity
from .standing import descendants, gets_on, last_handed, main_stack, mains, moves, recorded, standing, waits_in
from .told import Saving


def activities(evidence: Evidence) -> list[Activity]:
    seen = {main.pid: (main, stack) for main, stack in mains(evidence)}
    found = []
    for process in evidence.mains():
        found += _recorded(process, evidence, seen.get(process.pid))
    known = {process.pid for process in evidence.mains()}
    return found + [_seen(evidence, main, stack) for pid, (main, stack) in seen.items() if pid not in known]


def _recorded(process: Process, evidence: Evidence, seen: tuple[Seen, Stack] | None) -> list[Activity]:
    newest = newest_loader(process)
    found = []
    others = [one for one in evidence.mains() if one is not process]
    if seen is not None and process.alive:
        look = _seen(evidence, *seen)
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
    elif process.alive and before_first(evidence, process):  # a generator that is no DataLoader
        began = min(one.at for one in process.sources)
        text = f"before the first batch: {before_first(evidence, process)}"
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


def _seen(evidence: Evidence, main: Seen, stack: Stack) -> Activity:
    below = [one for one in descendants(evidence, main.pid) if one.role != "watcher"]
    moving = moves_itself(main, stack) or helped(evidence, main, stack)
    handed = last_handed(evidence, main) if doing(stack) == WAITING and evidence.stall is None else None
    since = standing(evidence, main, stack) if handed is None else handed
    return Activity(main.rank, description(evidence, main, stack, below), round(since, 1), moving, live=True)


def description(evidence: Evidence, main: Seen, stack: Stack, below: list[Seen]) -> str:
    """In words: what for, at which line, and what moves meanwhile."""
    what = doing(stack)
    if waits_for_user(main, stack):
        return USER
    line = user_frame(stack.calls)
    words = [what if what != OWN else "running" if moves_itself(main, stack) else waits_in(main.main_task)]
    if what == TRAINING:  # one that stands there mostly waits for other ranks
        words[0] = "computing" if moves_itself(main, stack) or moves(main) else "standing inside a step"
    if line is not None:
        words.append(f"at {short(place(line))} ({line.name})")
    counts = moves_itself(main, stack) or helped(evidence, main, stack)
    moved = [one for one in (main, *below) if gets_on(one) or moves(one)] if counts else []
    told = _movement(moved, main)
    if what in (WAITING, STARTING):
        told = f"workers: {_workers(evidence, below)}" if below else told
    parts = [_before_the_first(evidence, main) + " ".join(words), told, _fed(evidence, main), _gpus(evidence, main)]
    return "; ".join(part for part in parts if part)


def _before_the_first(evidence: Evidence, main: Seen) -> str:
    """A busy processor and an idle GPU are the normal picture of a run that has not begun to train."""
    process = recorded(evidence, main)
    began = process is None or process.optimizer_steps or any(loader.batches for loader in process.loaders)
    return "" if began else "before the first batch: "


def _fed(evidence: Evidence, main: Seen) -> str:
    """Before the first batch: documents read, tokens made, how full the buffer is and when it will be."""
    process = recorded(evidence, main)
    return before_first(evidence, process) if process is not None else ""


def _gpus(evidence: Evidence, main: Seen) -> str:
    """The GPUs whose memory it holds."""
    own = [one for one in evidence.gpus or () if main.pid in one.processes]
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


def _workers(evidence: Evidence, below: list[Seen]) -> str:
    """`2 idle, 1 at ds.py:12 (read)`."""
    told: dict[str, int] = {}
    for one in below:
        stack = main_stack(evidence, one.pid)
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
