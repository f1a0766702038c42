"""What a pass over a loader is: whether it validates, and which of its batches a resumed training passes over.

It validates if it begins with gradients off, or with the model set to evaluate. A frozen part of a model, or a teacher
beside it, is set to evaluate too, and the pass trains. So only the model itself counts: the one that was set to train
last, or any if none ever was; and only once there were optimizer steps. No reference of ours keeps it alive.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import MODE_EVAL, MODE_NO_GRAD, SKIPPED_BITS, SKIPPED_BY_LOADER, SKIPPED_ONE_BY_ONE, Kind

WRAPPERS = ("module", "_orig_mod")  # under which DDP and torch.compile hold the model that they were given
DEEP = 4


class Modes:
    """Of this process."""

    __slots__ = ("evaluated", "pid", "trained")

    def __init__(self) -> None:
        self.trained: weakref.ref[Any] | None = None
        self.evaluated: weakref.ref[Any] | None = None
        self.pid = 0  # of the process that has set it to evaluate: a fork begins anew

    def set(self, module: Any, training: bool) -> None:
        """A model was set to train or to evaluate by a call that is no part of another such call."""
        if training:
            self.trained, self.evaluated = weakref.ref(module), None
        elif process.optimizer_steps and self._is_trained(module):
            self.evaluated, self.pid = weakref.ref(module), process.pid

    def _is_trained(self, module: Any) -> bool:
        trained = self.trained() if self.trained is not None else None
        return trained is None or _unwrapped(module) is _unwrapped(trained)

    def bits(self) -> int:
        torch: Any = sys.modules.get("torch")
        found = 0 if torch is None or torch.is_grad_enabled() else MODE_NO_GRAD
        module = self.evaluated() if self.evaluated is not None and self.pid == process.pid else None
        # Lightning sets `training` back by itself, module by module.
        if module is not None and not attributes_of(module).get("training", False):
            found |= MODE_EVAL
        return found


def _unwrapped(module: Any) -> Any:
    for _ in range(DEEP):
        parts = attributes_of(module).get("_modules") or {}
        inner = next((parts[name] for name in WRAPPERS if parts.get(name) is not None), None)
        if inner is None or not type(module).__module__.startswith("torch."):
            return module
        module = inner
    return module


class Skipped:
    """What is passed over of one loader."""

    __slots__ = ("count", "how", "number", "of", "recorder", "since", "slot", "who")

    def __init__(self, recorder: Recorder, number: int, who: str, of: int, how: int) -> None:
        self.recorder, self.number, self.of, self.how = recorder, number, of, how
        self.who = recorder.intern(who)
        self.slot = recorder.board_slot(Kind.SKIPPING, number)
        self.since = clock()
        self.count = 0
        recorder.note(Kind.SKIPPING, number, self.since, 0, of, self.who)

    def show(self) -> None:
        lasts = (clock() - self.since) << SKIPPED_BITS | self.how
        self.recorder.board(self.slot, Kind.SKIPPING, self.number, self.since, self.count, self.of, self.who, lasts)


def skipping_begins(recorder: Recorder, number: int, who: str, of: int) -> None:
    """The first `of` batches of the pass that begins now are passed over."""
    _skipped[number] = Skipped(recorder, number, who, of, SKIPPED_BY_LOADER)
    _skipped[number].show()


def skips_one_more(recorder: Recorder, number: int, who: str, of: int) -> None:
    """One more is asked for, only to be thrown away, while the iterator is being made. `of` counts the first time."""
    found = _skipped.get(number)
    if found is None or found.recorder is not recorder or found.how != SKIPPED_ONE_BY_ONE:
        found = _skipped[number] = Skipped(recorder, number, who, of, SKIPPED_ONE_BY_ONE)
    found.show()
    found.count += 1


def skipping_iterator_made(recorder: Recorder, number: int) -> None:
    found = _skipped.get(number)
    if found is not None and found.how == SKIPPED_ONE_BY_ONE:
        skipping_done(recorder, number)


def skipping_done(recorder: Recorder, number: int) -> None:
    found = _skipped.pop(number, None)
    if found is not None and found.recorder is recorder:
        found.how = 0
        found.show()


modes = Modes()

_skipped: dict[int, Skipped] = {}
