"""Ranks of a trainer whose stacks show that one has finished its batches, and another has not.

A trainer runs the same code on all ranks. Where they part inside of it, and no code of the user's was asked, what they
were given is what differs: one rank's data has ended. Code of the user's may be under a condition on the rank.
"""

from __future__ import annotations

from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.ranks import Stand, stand
from ...analysis.stacks import Known, user_frame
from ...analysis.standstill import LONG, standing
from ...evidence.live import Frame

LIGHTNING = ("lightning/pytorch/", "pytorch_lightning/")
EPOCH_LOOP = tuple(f"{one}loops/training_epoch_loop.py" for one in LIGHTNING)
FIT_LOOP = tuple(f"{one}loops/fit_loop.py" for one in LIGHTNING)
EVALUATION_LOOP = tuple(f"{one}loops/evaluation_loop.py" for one in LIGHTNING)
TRANSFORMERS = ("transformers/trainer.py",)

TRAINER = Known("a trainer", (*LIGHTNING, *TRANSFORMERS))
IN_BATCH = (
    Known("in a batch", EPOCH_LOOP, ("advance",)),
    Known("in a batch", TRANSFORMERS, ("training_step",)),
)
AFTER = (
    Known("after its batches", FIT_LOOP, ("on_advance_end", "on_run_end")),
    Known("after its batches", EPOCH_LOOP, ("on_advance_end",)),
    Known("after its batches", TRANSFORMERS, ("_maybe_log_save_evaluate", "_finalize_training")),
)
# In the middle of a validation, and by which name its batches are counted there.
VALIDATING = {
    Known("validating", EVALUATION_LOOP, ("_evaluation_step",)): "batch_idx",
    Known("validating", TRANSFORMERS, ("evaluation_loop", "prediction_loop")): "step",
}
VALIDATION = (Known("validating", EVALUATION_LOOP), Known("validating", TRANSFORMERS, ("evaluate", "predict")))
COUNTED = Known("counts its batches", TRANSFORMERS, ("_run_epoch", "_inner_training_loop"))


class Parted(NamedTuple):
    """Ranks that have finished their batches, in which hook or function of the trainer, and ranks that have not."""

    through: list[Stand]
    inside: list[Stand]
    after: str  # ModelCheckpoint.on_train_epoch_end, Trainer.evaluate …
    seconds: float  # without progress of any rank


def parted_in_trainer(case: Case) -> Parted | None:
    """All ranks are seen and wait in collectives for long: some in a batch, the others after theirs."""
    stands = stand(case)
    worlds = {one.seen.world for one in stands if one.seen is not None and one.seen.world}
    if len(stands) < 2 or not worlds <= {len(stands)} or not all(one.waits and one.stack is not None for one in stands):
        return None
    inside = [one for one in stands if _matches(_calls(one), *IN_BATCH)]
    others = [one for one in stands if one not in inside]
    through = [one for one in others if _is_after(_calls(one)) or _left_trainer(one, inside)]
    if not inside or not through or len(inside) + len(through) < len(stands):
        return None
    if any(_later(one, other) for one in inside for other in through):
        return None
    seconds = min(standing(case, one.seen, one.stack) for one in stands if one.seen and one.stack)
    return Parted(through, inside, _where(through[0]), seconds) if seconds >= LONG else None


def _calls(one: Stand) -> list[Frame]:
    """Of the trainer and from there inwards, innermost first."""
    calls = one.stack.calls if one.stack is not None else []
    outermost = max((number for number, frame in enumerate(calls) if TRAINER.matches(frame)), default=-1)
    return calls[: outermost + 1]


def _matches(calls: list[Frame], *known: Known) -> bool:
    return any(one.matches(frame) for one in known for frame in calls)


def _is_after(calls: list[Frame]) -> bool:
    """What the trainer calls by itself. In a later batch of a validation, that is what may have had more."""
    counts = [frame.locals.get(name, "") for one, name in VALIDATING.items() for frame in calls if one.matches(frame)]
    return _matches(calls, *AFTER) and user_frame(calls) is None and all(one == "0" for one in counts)


def _later(one: Stand, other: Stand) -> bool:
    """It is known to be in a later epoch, or in no later batch: then it does not lack what the other has."""
    mine, theirs = (_count(_calls(each)) for each in (one, other))
    if mine is None or theirs is None:
        return False
    return mine[0] > theirs[0] or (mine[0] == theirs[0] and mine[1] <= theirs[1])


def _count(calls: list[Frame]) -> tuple[int, int] | None:
    """Epoch and batch."""
    for frame in calls:
        numbers = [frame.locals.get(name, "") for name in ("epoch", "step")]
        if COUNTED.matches(frame) and all(one.lstrip("-").isdigit() for one in numbers):
            return int(numbers[0]), int(numbers[1])
    return None


def _left_trainer(one: Stand, inside: list[Stand]) -> bool:
    """The user's code has come past the line at which others are in the trainer. They met at its beginning, for DDP."""
    calls = one.stack.calls if one.stack is not None else []
    asked = [frame for other in inside for frame in _around(other)][:1]
    return not _calls(one) and any(
        (frame.file, frame.name) == (asked[0].file, asked[0].name) and frame.line > asked[0].line
        for frame in calls
        if asked
    )


def _around(one: Stand) -> list[Frame]:
    """The calls that the trainer was asked from, innermost first."""
    return one.stack.calls[len(_calls(one)) :] if one.stack is not None else []


def _where(one: Stand) -> str:
    """The hook whose frame it is, with its class where Python names that; or validation, or what the trainer calls."""
    calls = _calls(one)
    hooks = [frame.function for frame in calls if frame.name.startswith("on_") and not _matches([frame], *AFTER)]
    if not calls:
        return one.spot
    if _matches(calls, *VALIDATION):
        return "validation"
    if hooks:
        return hooks[-1]
    number = next(number for number, frame in enumerate(calls) if _matches([frame], *AFTER))
    return calls[max(number - 1, 0)].function
