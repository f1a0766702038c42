"""What user code may say of itself. Harmless, and nearly free, when nothing records."""

from __future__ import annotations

import os
from pathlib import PurePath
from types import TracebackType

from .exceptions import remember
from .format import Kind
from .guard import is_ours
from .phases import Said, begins, ends
from .process import process
from .recorder import Recorder, clock
from .values import tell


class stage:  # noqa: N801  (used like a function)
    """`with unstuck.stage("decode", item=path):` times a part of the user's own work and says what it is about."""

    __slots__ = ("item", "name", "recorder", "started")

    def __init__(self, name: str, item: object = None) -> None:
        self.name = name
        self.item = item
        self.started = 0
        self.recorder: Recorder | None = None

    def __enter__(self) -> stage:  # noqa: PYI034  (typing.Self came with Python 3.11)
        self.recorder = recorder = process.recorder
        if recorder is not None:
            try:
                self.started = clock()
                key = recorder.intern(self.name)
                slot = recorder.board_slot(Kind.STAGE, key)
                recorder.board_text(slot, Kind.STAGE, key, self.started, _text(self.item), 1)
            except Exception as error:
                if not is_ours(error):
                    raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder = self.recorder
        if recorder is None or recorder is not process.recorder:
            return
        try:
            if error is not None:
                remember(error, {"stage": self.name, "item": _text(self.item)})
            now = clock()
            key = recorder.intern(self.name)
            recorder.total(recorder.total_slot(Kind.STAGE, key), now - self.started)
            recorder.event(Kind.STAGE, key, self.started, now - self.started)
            recorder.board(recorder.board_slot(Kind.STAGE, key), Kind.STAGE, key, now)
            recorder.cost(clock() - now)
        except Exception as ours:
            if not is_ours(ours):
                raise


class phase:  # noqa: N801  (used like a function)
    """`with unstuck.phase("validation"):` says what the training does now, where it does not show. Phases may nest.

    What is called training or validation counts as such, whatever the loops in it look like.
    """

    __slots__ = ("name", "recorder", "said")

    def __init__(self, name: str) -> None:
        self.name = name
        self.recorder: Recorder | None = None
        self.said: Said | None = None

    def __enter__(self) -> phase:  # noqa: PYI034  (typing.Self came with Python 3.11)
        self.recorder = recorder = process.recorder
        if recorder is not None:
            try:
                self.said = begins(recorder, self.name)
            except Exception as error:
                if not is_ours(error):
                    raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder, said = self.recorder, self.said
        if recorder is None or said is None or recorder is not process.recorder:
            return
        try:
            ends(recorder, said)
        except Exception as ours:
            if not is_ours(ours):
                raise


def _text(item: object) -> str:
    """Only of types whose text is no code of the user's."""
    if type(item) in (str, int, float):
        return str(item)
    if isinstance(item, PurePath):
        return os.fspath(item)
    return "" if item is None else type(item).__name__


def progress(name: str, have: int, need: int = 0, unit: str = "") -> None:
    """Say how far something has come: `unstuck.progress("token buffer", have, need, unit="tokens")`."""
    recorder = process.recorder
    if recorder is None:
        return
    try:
        key = recorder.intern(name)
        slot = recorder.board_slot(Kind.PROGRESS, key)
        recorder.board(slot, Kind.PROGRESS, key, clock(), int(have), int(need), recorder.intern(unit))
    except Exception as error:
        if not is_ours(error):
            raise


def metric(step: int | None = None, **values: float) -> None:
    """Tell a number that the training is judged by: `unstuck.metric(loss=0.12, step=300)`.

    Numbers, and tensors of one number on the CPU. A tensor on another device is passed over: to ask for it is to wait.
    """
    recorder = process.recorder
    if recorder is None:
        return
    try:
        told = step + 1 if type(step) is int and step >= 0 else 0
        for name, value in values.items():
            tell(recorder, name, value, told)
    except Exception as error:
        if not is_ours(error):
            raise
