"""A callback, or a hook of the model itself, takes long or never returns, and training waits for it.

## It means
A trainer calls its callbacks one after the other, in the thread that trains. One that copies files, renders samples or
waits for something pauses the training as long as it takes; on several ranks, all wait for the slowest. A collective
in a hook (`dist.barrier`, `trainer.strategy.reduce`, `self.log(sync_dist=True)`, `trainer.save_checkpoint`) under `if
trainer.is_global_zero:` waits for the other ranks, which go on to the next epoch: that is a deadlock.

## Fix
A slow hook: start the slow part in a thread, and wait for it in the next call. Copy what it reads first, because the
weights change while it runs.

```python
# before
def on_train_epoch_end(self, trainer, module):
    upload(render(module.confusion))


# after
def __init__(self):
    self.pool, self.pending = ThreadPoolExecutor(1), None


def on_train_epoch_end(self, trainer, module):
    if self.pending is not None:
        self.pending.result()  # raises what the thread raised
    self.pending = self.pool.submit(lambda confusion: upload(render(confusion)), copy.deepcopy(module.confusion))
```

Or do it less often, or once in `on_train_end`. A hook with a collective: every rank makes the call, and only the work
of one rank is under the condition.

```python
# before
if trainer.is_global_zero:
    trainer.save_checkpoint(self.path)  # a collective: waits for all ranks

# after
trainer.save_checkpoint(self.path)  # on every rank; only rank 0 writes
if trainer.is_global_zero:
    print("saved", self.path)
```

## Check it yourself
Lightning times its hooks by itself:

```python
trainer = Trainer(profiler="simple", max_epochs=2)  # prints the seconds of each hook after fit()
```

A hook that does not come back shows in the stack of the process:

```sh
py-spy dump --pid PID
```

## Not this, if
- the hook is slow in a logger: [logger-blocks-epoch-end](logger-blocks-epoch-end.md)
- the hook waits for a logger's server: [logger-no-answer](logger-no-answer.md)
- the time goes into saving a checkpoint: [slow-checkpoint](slow-checkpoint.md)
- the call for one rank only is in the loop and not in a hook: [rank0-only-collective](rank0-only-collective.md)
- only one rank validates: [rank-conditional-eval](rank-conditional-eval.md)

## How sure
Judged from every hook that Lightning or transformers' Trainer calls at the boundaries of epochs, of every callback and
of the model: all are timed, none is searched for by name. What such a hook does that is known by itself (a logger, a
checkpoint, waiting for other ranks) is counted there and not here. It speaks from one second a call and 15 % of the
run on; of a blocked run, where the hook is entered and nothing of it moves, or where it is in a collective that other
ranks never call.

## Seen in
- https://github.com/Lightning-AI/pytorch-lightning/issues/19604: a deadlock in `on_train_epoch_end`
- https://github.com/talmolab/sleap-nn/pull/437: callbacks froze multi-GPU training after each epoch
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...analysis.ranks import listed, told
from ...analysis.shares import Alone
from ...analysis.side_work import HungHook, Spent, alone_in_hook, hook_words, hung_hook, met_at, spent
from ...analysis.stacks import place, user_frame
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.frameworks import TRANSFORMERS, Framework
from ...evidence.loader import Call
from ...evidence.process import Process
from ...wording.settings import framework_of
from ...wording.text import duration, line, many, percent
from ..rule import rule

EACH = 1.0  # seconds a call: shorter ones go unnoticed
SHARE = 0.15  # of the run: less is a price that people pay on purpose
MOST = 0.05  # of the run: what a hook may take


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
        yield _blocked(case, stuck)
    else:
        yield from _slow(case)


def _slow(case: Case) -> Iterator[Finding]:
    found = [one for main in case.mains for loader in main.loaders for one in spent(main, loader)]
    slow = [one for one in found if one.each >= EACH and one.part.seconds >= SHARE * lasted(one.main)]
    trained = [one for one in slow if one.loader.optimizer_steps] or slow
    for one in sorted(trained, key=lambda one: -one.part.seconds)[:1]:
        owner, hook = hook_words(one.part.name)
        share = one.part.seconds / max(lasted(one.main), 1e-9)
        when = "between epochs" if one.boundaries > one.part.seconds / 2 else "per call"
        yield case.finding(
            one.main,
            cause=f"{_training(one.main)} pauses {duration(one.each)} {when} in {_whose(one.main, owner)}.{hook}: "
            f"{percent(share)} of the run.",
            seen=list(_seen(case, one, found)),
            remedy=Remedy(
                f"Start the slow part of {hook} in a thread and join it in the next call; copy what it reads first."
            ),
            alternatives=list(_less_often(one, share)),
            onset_s=one.loader.boundaries[0].at if one.loader.boundaries else None,
            where=one.part.where,
            subject=Subject("callback", owner),
        )


def _seen(case: Case, one: Spent, found: list[Spent]) -> Iterator[str]:
    for other in [each for each in found if each.main is one.main and each.loader is one.loader][:4]:
        calls = f"{many(other.part.count, 'call')} of {duration(other.each)}"
        yield f"{other.part.name}: {calls}, {duration(other.part.seconds)} in all"
    met = met_at(case, one)
    if met is not None:
        yield f"most samples of the main thread: {line(met)} ({met.function})"
    framework = framework_of(one.main)
    if framework is not None:
        names = ", ".join(each.name for each in framework.callbacks[:8])
        yield f"registered callbacks: {names or 'none'}"


def _less_often(one: Spent, share: float) -> Iterator[Remedy]:
    framework = framework_of(one.main)
    planned = _planned(framework)
    every = max(round(share / MOST), 2)
    if planned is not None:
        every = min(every, int(planned // 2))  # at least twice in the run
    if every >= 2:
        yield Remedy(
            f"Do it once in {every} epochs ({percent(share / every)} of the run):",
            code=[_condition_of_epoch(one, framework, every)],
        )
    yield Remedy("Do it once, at the end of the training: move it to on_train_end.")


def _planned(framework: Framework | None) -> float | None:
    """The epochs that the user asked for."""
    known = framework.settings if framework is not None else {}
    epochs = known.get("max_epochs") or known.get("num_train_epochs")
    limited = (known.get("max_steps") or 0) > 0  # then the epochs are not the limit
    return epochs if isinstance(epochs, int | float) and epochs > 0 and not limited else None


def _condition_of_epoch(one: Spent, framework: Framework | None, every: int) -> str:
    condition = f"if trainer.current_epoch % {every} == 0:"
    if framework is not None and framework.name == TRANSFORMERS:
        condition = f"if round(state.epoch) % {every} == 0:"
    if framework is not None and framework.module == hook_words(one.part.name)[0]:
        condition = f"if self.current_epoch % {every} == 0:"
    return condition


def _blocked(case: Case, one: HungHook) -> Finding:
    owner, hook = hook_words(one.call.name)
    frame = user_frame(one.stack.calls)
    where = place(frame) or one.call.where
    longest = one.call.timing.longest
    before = f"; earlier calls took at most {duration(longest)}" if one.call.timing.count else ""
    return case.finding(
        one.main,
        cause=f"{_training(one.main)} has been blocked for {duration(one.seconds)} in "
        f"{_whose(one.main, owner)}.{hook}, which does not return.",
        seen=[f"{one.call.name} was entered {duration(one.seconds)} ago and is idle{before}"],
        remedy=Remedy(
            f"Find what {hook} waits for, and give that call a timeout, which turns the silence into an error:",
            commands=[f"py-spy dump --pid {one.seen.pid} --locals"],
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
    ranks, others = listed(found.parting.ranks), listed(found.parting.others)
    hooked = f"{_whose(main, owner) if main is not None else owner}.{hook}"
    single = len(found.parting.ranks) == 1
    cause = (
        f"Deadlock: only {ranks} {'calls' if single else 'call'} {found.call} in {hooked}; {others} never called it."
    )
    if died:
        cause = f"Only {ranks} called {found.call} in {hooked}, and crashed waiting for {others}."
    return case.finding(
        found.who,
        cause=cause,
        seen=[
            *told(found.stands),
            f"all ranks made the same calls up to collective {max((first.sequence or 1) - 1, 0):,}",
        ],
        remedy=Remedy(
            f"Make the call on every rank, outside of the condition that only {ranks} {'meets' if single else 'meet'}; "
            "keep one rank's own work inside:",
            code=[_condition(main), "    ...  # no collective here", f"...  # what calls {found.call}: on every rank"],
        ),
        onset_s=first.at,
        where=first.where or call.where,
        subject=Subject("callback", owner),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _condition(main: Process | None) -> str:
    framework = framework_of(main) if main is not None else None
    if framework is not None and framework.name == TRANSFORMERS:
        return "if state.is_world_process_zero:"
    return "if trainer.is_global_zero:"


def _training(main: Process) -> str:
    return f"Rank {main.rank}" if main.rank is not None else "Training"


def _whose(main: Process, owner: str) -> str:
    framework = framework_of(main)
    return (
        f"the model's own {owner}" if framework is not None and framework.module == owner else f"the callback {owner}"
    )
