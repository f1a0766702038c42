"""The next epoch waits for a callback, or for a hook of the model itself: it takes long, or does not come back.

## What it looks at
Every hook that Lightning or transformers' Trainer calls at the boundaries of epochs, of every callback that is
registered and of the model: how long each took, by the class that has it. What such a hook does that is known by itself
(a logger, a checkpoint, waiting for other ranks) is counted there and not here. Of a run that stands: the hook that was
entered and not left, and whether it is in a collective that other ranks never call.

## Why it happens
A trainer calls its callbacks one after the other, in the thread that trains. One that copies files, renders samples or
waits for something holds up the training as long as it takes; on several ranks, all wait for the slowest. A collective
in a hook (`dist.barrier`, `trainer.strategy.reduce`, `self.log(sync_dist=True)`, `trainer.save_checkpoint`) under `if
trainer.is_global_zero:` waits for the other ranks, which go on to the next epoch.

## What to do
Do it in a thread and join that in the next call, or not after every epoch. Call collectives on all ranks, and put only
the work of one rank under the condition.

## How sure it is
Sure of hook and times: all hooks are timed, none is searched for by name. Of a slow run it speaks from one second a
call and 15 % of the run on; of one that stands, where the hook is entered and nothing of it moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...analysis.ranks import listed, told
from ...analysis.shares import Alone
from ...analysis.side_work import HungHook, Spent, alone_in_hook, hook_words, hung_hook, met_at, spent
from ...analysis.stacks import place, user_frame
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.frameworks import TRANSFORMERS
from ...evidence.loader import Call
from ...evidence.process import Process
from ...wording.settings import framework_of
from ...wording.text import duration, line, many, percent, short, who
from ..rule import rule

EACH = 1.0  # seconds a call: what is shorter nobody notices
SHARE = 0.15  # of the run: less is a price that people pay on purpose
MOST = 0.05  # of the run: what a hook may take without anybody minding


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.LIKELY,
    needs=("recording",),
    outranks=("rank0-only-collective", "rank-conditional-eval"),
    yields_to=(
        "logger-blocks-epoch-end",
        "logger-no-answer",
        "wandb-finish-hang",
        "wandb-init-timeout",
        "hf-filelock",
        "filebaton-stale-lock",
        "stdout-pipe-full",
    ),
)
def check(case: Case) -> Iterator[Finding]:
    lonely = alone_in_hook(case)
    stuck = hung_hook(case) if lonely is None else None
    if lonely is not None:
        yield _alone(case, *lonely)
    elif stuck is not None:
        yield _stands(case, stuck)
    else:
        yield from _slow(case)


def _slow(case: Case) -> Iterator[Finding]:
    found = [one for main in case.mains for loader in main.loaders for one in spent(main, loader)]
    slow = [one for one in found if one.each >= EACH and one.part.seconds >= SHARE * lasted(one.main)]
    trained = [one for one in slow if one.loader.optimizer_steps] or slow
    for one in sorted(trained, key=lambda one: -one.part.seconds)[:1]:
        owner, hook = hook_words(one.part.name)
        share = one.part.seconds / max(lasted(one.main), 1e-9)
        when = "Between two epochs" if one.boundaries > one.part.seconds / 2 else "In the middle of its epochs"
        yield case.finding(
            one.main,
            cause=f"{when} {_training(one.main)} waits {duration(one.each)} for {_whose(one.main, owner)}.{hook}"
            f"{_at(one.part.where)}: {duration(one.part.seconds)} in {many(one.part.count, 'call')}, "
            f"{percent(share)} of the run.",
            seen=list(_seen(case, one, found)),
            remedy=_less_often(one, hook, share),
            onset_s=one.loader.boundaries[0].at if one.loader.boundaries else None,
            where=one.part.where,
            subject=Subject("callback", owner),
        )


def _seen(case: Case, one: Spent, found: list[Spent]) -> Iterator[str]:
    met = met_at(case, one)
    if met is not None:
        yield f"the main thread was met most often at {line(met)} ({met.function})"
    framework = framework_of(one.main)
    if framework is not None:
        names = ", ".join(each.name for each in framework.callbacks[:8])
        yield f"callbacks that are registered: {names or 'none'}"
    for other in [each for each in found if each.main is one.main and each.loader is one.loader][:4]:
        yield f"{other.part.name}: {many(other.part.count, 'call')} of {duration(other.each)}"


def _less_often(one: Spent, hook: str, share: float) -> Remedy:
    framework = framework_of(one.main)
    every = max(round(share / MOST), 2)
    condition = f"if trainer.current_epoch % {every} == 0:"
    if framework is not None and framework.name == TRANSFORMERS:
        condition = f"if round(state.epoch) % {every} == 0:"
    if framework is not None and framework.module == hook_words(one.part.name)[0]:
        condition = f"if self.current_epoch % {every} == 0:"
    return Remedy(
        f"Let {hook} only start the work, in a thread, and join that thread in its next call. Or do it once in "
        f"{every} epochs, where it takes {percent(share / every)} of the run: `{condition}`"
    )


def _stands(case: Case, one: HungHook) -> Finding:
    owner, hook = hook_words(one.call.name)
    frame = user_frame(one.stack.calls)
    where = place(frame) or one.call.where
    longest = one.call.timing.longest
    before = f"; before, it took {duration(longest)} at most" if one.call.timing.count else ""
    return case.finding(
        one.main,
        cause=f"{who(one.main)[:1].upper()}{who(one.main)[1:]} has been in {_whose(one.main, owner)}.{hook}"
        f"{_at(where)} for {duration(one.seconds)}, does nothing there, and does not come back.",
        seen=[f"{one.call.name} was entered {duration(one.seconds)} before the look at it{before}"],
        remedy=Remedy(
            f"Look at what {hook} waits for there, and who should provide it. A time limit at that line turns the "
            "silence into an error.",
            [f"py-spy dump --pid {one.seen.pid} --locals"],
        ),
        onset_s=case.stall.since if case.stall is not None else one.call.since,
        where=where,
        subject=Subject("callback", owner),
        symptom=Symptom.STUCK.value,
    )


def _alone(case: Case, found: Alone, call: Call) -> Finding:
    owner, hook = hook_words(call.name)
    first, main = found.parting.first, found.who.process
    died = any(one.death is not None for one in found.stands)
    spot = f" at {short(first.where)}" if first.where is not None else ""
    others = listed(found.parting.others)
    whose = _whose(main, owner) if main is not None else owner
    return case.finding(
        found.who,
        cause=f"In {whose}.{hook}, {listed(found.parting.ranks)} called {found.call}{spot} and "
        f"{'waited' if died else 'waits'} for {others}, which never called it and went on.",
        seen=[
            *told(found.stands),
            f"up to collective {max((first.sequence or 1) - 1, 0):,} of their sequence all ranks called the same",
        ],
        remedy=Remedy(
            f"Take the call{spot}, which comes to {found.call}, out of the condition that only "
            f"{listed(found.parting.ranks)} meet{'s' * (len(found.parting.ranks) == 1)}: {hook} has to make it on all "
            f"ranks. Keep only the work of one rank under {_condition(main)}."
        ),
        onset_s=first.at,
        where=first.where or call.where,
        subject=Subject("callback", owner),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _condition(main: Process | None) -> str:
    framework = framework_of(main) if main is not None else None
    if framework is not None and framework.name == TRANSFORMERS:
        return "`if state.is_world_process_zero:`"
    return "`if trainer.is_global_zero:`"


def _training(main: Process) -> str:
    return f"rank {main.rank}" if main.rank is not None else "the training"


def _whose(main: Process, owner: str) -> str:
    framework = framework_of(main)
    return (
        f"the model's own {owner}" if framework is not None and framework.module == owner else f"the callback {owner}"
    )


def _at(where: Place | None) -> str:
    return f" ({short(where)})" if where is not None else ""
