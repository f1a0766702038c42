"""Hooks of callbacks and of the model at the ends of epochs: all that are registered were watched, and cost nothing.

Nobody searches the code for their names: the trainer itself says which there are, and each was timed when called.
"""

from __future__ import annotations

from .between import CALLBACK, SYNCHRONIZE
from .evidence import Evidence
from .frameworks import Framework
from .phrases import duration, many, percent
from .questions import newest_loader
from .recorded import Process
from .report import Finding
from .waiting import lasted

LITTLE = 0.05  # of the run: who has a run that is slow or stuck need not look there
NAMED = 6  # callbacks that are told by name
BETWEEN = "between passes"
BOUNDARIES = (  # rules about what lies between two epochs
    "epoch-boundary-gap", "worker-respawn-epoch-gap", "logger-blocks-epoch-end", "slow-checkpoint", "gc-pauses",
    "loader-shutdown-slow-join",
)  # fmt: skip
AT_ENDS = ("on_train_epoch_end", "training_epoch_end", "on_validation_epoch_end", "on_validation_end")


def cleared(evidence: Evidence, roots: list[Finding]) -> list[str]:
    """Of the first rank that has a trainer. Nothing is said while a hook goes on, or where they took long.

    And only where somebody would suspect them: of a run that stands, or loses its time, between two epochs.
    """
    lost = any(one.rule in BOUNDARIES for one in roots)
    for main in evidence.mains():
        trains = [one for one in main.frameworks if one.what in ("fit", "train")]
        if trains:
            return _lines(main, trains[-1]) if lost or (main.alive and _between_epochs(main)) else []
    return []


def _between_epochs(main: Process) -> bool:
    newest = newest_loader(main)
    return newest is not None and (newest.now == BETWEEN or not newest.pass_batches)


def _lines(main: Process, framework: Framework) -> list[str]:
    hooks = [one for one in main.calls if one.what == CALLBACK]
    spent, ran = sum(one.timing.total for one in hooks), lasted(main)
    if any(one.since is not None for one in hooks) or spent > LITTLE * ran or not framework.epochs:
        return []
    count = sum(one.timing.count for one in hooks)
    names = ", ".join(one.name for one in framework.callbacks[:NAMED])
    more = f" and {len(framework.callbacks) - NAMED} more" if len(framework.callbacks) > NAMED else ""
    registered = f"{many(len(framework.callbacks), 'callback')} ({names}{more})" if names else "no callback"
    text = (
        f"callbacks are not the cause: {registered} registered, {many(count, 'call')} of hooks at the boundaries of "
        f"epochs took {duration(spent)} in all, {percent(spent / ran) if ran else '0 %'} of the run"
    )
    return [text, *_model(main, framework)]


def _model(main: Process, framework: Framework) -> list[str]:
    """What the model itself does there, where that is known."""
    if not framework.module or framework.name != "Lightning":
        return []
    own = [one for one in framework.hooks if one in AT_ENDS]
    told = f"its own hooks there are {', '.join(own)}" if own else "it has no hook of its own at the end of an epoch"
    steps = "".join(f"; {one} does nothing" for one in framework.empty)
    waits = sum(one.timing.count for one in main.calls if one.what == SYNCHRONIZE)
    synchronized = f"{many(waits, 'call')} of torch.cuda.synchronize" if waits else "no call of torch.cuda.synchronize"
    return [f"the model {framework.module}: {told}{steps}; {synchronized} by the training"]
