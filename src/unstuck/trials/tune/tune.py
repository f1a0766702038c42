"""Finds settings of a loader: asks a search what to measure, has it measured, and proposes what came of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...analysis.case import Case
from ...diagnose import gather
from ...errors import UserError
from ...evidence.loader import Loader
from ...evidence.trial import FAIL, IMPOSSIBLE, PASS, Alternative, Budget, Proposal, Rung, Search, Target, Term, Trial
from ...inside.redaction import redacted_values
from ...probes import cgroups
from ...wording.text import duration, many, percent, size
from ..attempt import Limits, Work, attempt
from ..budget.predict import grade
from ..doctor.ladder import LADDER
from ..doctor.ladder import Step as Rungs
from ..doctor.verdicts import rung_of
from ..memory import room
from .conversation import IMPORTING, STALL, Conversation, Tell
from .proposals import Made, debug_code, formula, proposals
from .search import UNEVEN, Questions, feed, feeds, grid, search
from .standings import MARGIN, USUAL, Bounds, Setting, Standings, setting_of

INTERRUPTED = "interrupted"
AGAIN = 5.0  # seconds for what failed to fail again
NO_WORKERS, ONE_WORKER = (next(one for one in LADDER if one.name == name) for name in ("no-workers", "one-worker"))
MEASURING = Rungs("measuring", "measure settings", "measure")


class Step(NamedTuple):
    """Of the training that has to be fed."""

    seconds: float
    of: str  # where the length comes from
    loader: Loader | None = None  # of the recorded run


class Wanted(NamedTuple):
    """What the command line asks for."""

    seconds: float
    wishes: dict[str, Any]
    memory: int | None = None
    step: Step | None = None


def step_of(folder: Path) -> Step:
    """The time that the loop of a recorded run takes with a batch, of the loader that trains."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a run folder", "name one of unstuck-runs/, or give --step-ms")
    loaders = [one for main in Case(gather(folder)).mains for one in main.loaders if one.bodies.count]
    if not loaders:
        raise UserError(f"{folder} has no loop over a loader", "give --step-ms, the milliseconds of a training step")
    chosen = max(loaders, key=lambda one: (one.optimizer_steps, one.batches))
    of = f"the mean of {many(chosen.bodies.count, 'step')} of {folder.name}"
    return Step(chosen.bodies.mean, of, chosen)


def processors() -> float:
    """That may be used: by affinity, and by quota."""
    allowed = float(len(os.sched_getaffinity(0)))
    quota = cgroups.processor_quota(os.getpid())
    return min(allowed, quota) if quota else allowed


def tune(work: Work, wanted: Wanted, tell: Tell) -> Trial:
    there = room(wanted.memory)
    bounds = Bounds(processors(), there.memory, there.shm_free)

    def begin(seen: Standings, loader: dict[str, Any]) -> Questions:
        seen.bounds = bounds._replace(orders=bool(talk.about.get("orders")), configured=configured(loader))
        if wanted.step is not None:
            return feed(seen, float(loader.get("batch_size") or 1), wanted.step.seconds)
        return search(seen)

    talk = Conversation(work, wanted.wishes, wanted.seconds, begin, tell)
    try:
        talk.hold(bounds)
    except KeyboardInterrupt:
        if not talk.seen.order:
            raise
        talk.ended = INTERRUPTED
    return _trial(work, wanted, talk, (there.memory, there.memory_of))


def configured(loader: dict[str, Any]) -> Setting:
    workers = loader.get("num_workers") or 0
    depth = (loader.get("prefetch_factor") or USUAL) if workers else None
    return Setting(workers, depth, bool(loader.get("in_order", True)))


def _trial(work: Work, wanted: Wanted, talk: Conversation, memory: tuple[int, str]) -> Trial:
    seen, facts = talk.seen, talk.facts
    loader = msgspec.convert(facts["loader"], Loader) if facts.get("loader") else None
    made = Made(facts.get("gave", ""), loader, wanted.step.loader if wanted.step else None, talk.about.get("gpus", 0))
    batch = float(loader.batch_size or 1) if loader is not None else 1.0
    needed = batch / wanted.step.seconds if wanted.step is not None else None
    counted, said = formula(int(seen.bounds.processors), made.gpus)
    done = [one for setting in seen.results if (one := seen.of(setting)) is not None]
    failed = [parts[-1] for parts in seen.results.values() if all(one.failed for one in parts)]
    proposed = proposals(seen, made, needed)
    found = Search(
        settings=len(seen.order),
        grid=len(grid(seen.bounds)),
        seconds=sum(one.took for one in seen.order),
        noise=max((one.noise for one in done), default=0.0),
        formula=counted,
        formula_said=said,
        step=wanted.step.seconds if wanted.step is not None else None,
        step_of=wanted.step.of if wanted.step is not None else "",
        stopped=talk.ended or seen.stopped,
        memory=memory[0],
        memory_of=memory[1],
        processors=seen.bounds.processors,
        data=seen.data(),
        needed=needed,
        debug=debug_code(made),
        notes=_notes(talk, made, needed),
    )
    return Trial(
        command="tune",
        target=Target(work.target, redacted_values(work.kwargs), made.gave, loader),
        rungs=_rungs(talk, work, wanted.wishes),
        measured=sorted([*done, *failed], key=lambda one: (one.step or 0, one.workers, one.prefetch or 0)),
        search=found,
        proposals=proposed,
        budget=_budget(seen, loader, memory, proposed),
    )


def _rungs(talk: Conversation, work: Work, wishes: dict[str, Any]) -> list[Rung]:
    """Settings that fail are a result. Only where none works is it a failure: that is tried once more, and shown."""
    seen, rungs = talk.seen, []
    alone = seen.of(Setting(0))
    if alone is not None:
        rungs.append(
            Rung(NO_WORKERS.name, NO_WORKERS.title, PASS, batches=alone.batches, samples=alone.samples, workers=0)
        )
    failed = seen.unexplained() if talk.ended != INTERRUPTED else None
    if failed is not None:
        rungs.append(_failing(failed, work, wishes))
    elif not seen.all():
        rungs += [rung_of(MEASURING, one, Limits(), None) for one in talk.outcomes[-1:]]
    elif alone is None:
        rungs.append(Rung(MEASURING.name, MEASURING.title, PASS, batches=sum(one.batches for one in seen.order)))
    return rungs


def _failing(setting: Setting, work: Work, wishes: dict[str, Any]) -> Rung:
    step = ONE_WORKER if setting.workers else NO_WORKERS
    changes = {"num_workers": setting.workers, "prefetch_factor": setting.prefetch}
    options = {**wishes, "change": changes, "batches": 1000, "seconds": AGAIN}
    limits = Limits(AGAIN + IMPORTING, stall=STALL)
    rung = rung_of(step, attempt(step.what, step.name, work, options, limits, lambda _: None), limits, None)
    if rung.status == PASS:  # by chance, or not at once: what was seen when it was measured is what there is
        reason = f"{setting.words()} failed when it was measured, and not again"
        return msgspec.structs.replace(rung, name=MEASURING.name, title=MEASURING.title, status=FAIL, reason=reason)
    return rung


def _budget(seen: Standings, loader: Loader | None, memory: tuple[int, str], proposed: list[Proposal]) -> Budget | None:
    """Of the setting that the loader has now, where it does not fit: then it was not tried."""
    own = seen.bounds.configured
    foretold = seen.memory(own) if own is not None else None
    if own is None or foretold is None or seen.of(own) is not None or foretold[0] <= memory[0]:
        return None
    needed, shm = foretold
    how = f"{many(own.workers, 'worker')} as measured with fewer"
    return Budget(
        workers=own.workers,
        batch=(loader.batch_size or 1) if loader is not None else 1,
        prefetch=own.prefetch or 0,
        terms=[Term("waiting", shm, how, shm=True), Term("workers and main process", needed - shm, how)],
        rank=needed,
        node=needed,
        memory=memory[0],
        memory_of=memory[1],
        grade=IMPOSSIBLE,
        shm=shm,
        shm_size=seen.bounds.shm,
        safer=_safer(proposed, memory[0]),
    )


def _safer(proposed: list[Proposal], memory: int) -> list[Alternative]:
    """The fastest first, each once."""
    known = {setting_of(one.setting).words(): one.memory for one in reversed(proposed)}
    return [Alternative(words, needed, grade(needed, memory)) for words, needed in known.items()]


def _notes(talk: Conversation, made: Made, needed: float | None) -> list[str]:
    """What was decided apart from the number of workers, and why."""
    seen = talk.seen
    best = seen.best()
    if best is None:
        return []
    notes = [_fed(seen, needed)] if needed is not None else []
    notes += [_beyond_memory(seen), _persistent(seen, made), _order(seen), _start(talk), _pin(made)]
    return [one for one in notes if one]


def _fed(seen: Standings, needed: float) -> str:
    best = seen.best()
    tried = [one for setting in seen.results if setting.step and (one := seen.of(setting)) is not None]
    if best is None or any(feeds(one) for one in tried):
        return ""
    least = min((one.starved or 0.0 for one in tried), default=None)
    waits = f"; the training would wait {percent(least)} of the time" if least is not None else ""
    reaches = f"the fastest loads {best.rate:,.0f} of the {needed:,.0f} samples/s that it takes"
    if best.rate >= needed:
        return f"no setting keeps this training from waiting, though {reaches}: not evenly enough{waits}"
    limit = "all CPU cores are busy" if seen.full(best) else seen.stopped
    return f"no setting keeps this training fed: {reaches} ({limit}){waits}"


def _beyond_memory(seen: Standings) -> str:
    own = seen.bounds.configured
    foretold = seen.memory(own) if own is not None else None
    if own is None or foretold is None or seen.of(own) is not None or seen.fits(own) or seen.bounds.memory is None:
        return ""
    return (
        f"the loader's own setting ({own.words()}) was not tried: it would take about {size(foretold[0])}, "
        f"more than {percent(MARGIN)} of {size(seen.bounds.memory)}"
    )


def _persistent(seen: Standings, made: Made) -> str:
    best = seen.best()
    if best is None or not best.workers:
        return ""
    length = made.loader.dataset_length if made.loader is not None else None
    whole = length / best.rate if length else 0.0
    of = f", {percent(best.start / (whole + best.start))} of an epoch of {duration(whole)}" if whole else ""
    return f"persistent_workers=True saves up to {duration(best.start)} at the start of every epoch but the first{of}"


def _order(seen: Standings) -> str:
    alone, tried = seen.of(Setting(0)), [one for one in seen.all() if not one.in_order]
    if not seen.bounds.orders:
        return "in_order=False needs torch 2.6 or newer"
    if alone is None or tried:
        return ""
    if alone.scatter < UNEVEN:
        return f"in_order=False was not tried: batches take equally long to load (± {percent(alone.scatter)})"
    return ""


def _start(talk: Conversation) -> str:
    pickled, best = talk.about.get("pickled") or {}, talk.seen.best()
    if best is not None and best.context:
        return f"workers work with the {best.context} start method, and not with the default"
    if "failed" in pickled:
        return f"start method: workers can only be forked; the dataset cannot be pickled ({pickled['failed']})"
    sent = pickled.get("bytes", 0)
    cost = f"each would import torch and unpickle {size(sent)}"
    return f"start method: unchanged. Workers could be spawned as well; {cost}"


def _pin(made: Made) -> str:
    if made.gpus:
        return "pin_memory=True: there is a GPU; its effect on copies to the GPU was not measured"
    return "pin_memory was not tried: there is no GPU here. Set it to True on a machine with one"
