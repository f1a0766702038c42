"""Values that the training is judged by, told by the user's code or by its logger."""

from __future__ import annotations

import struct

from .format import Kind
from .process import process
from .recorder import Recorder, clock

SHOWN = 16  # names whose newest value stands on the board, which has to have room for loaders and stages
KNOWN = 1024  # names that are remembered; a program that makes them up has each looked up anew
SOON = 50_000_000  # nanoseconds between two values of a name on the board: that is the costly part
as_double, as_word = struct.Struct("d").pack, struct.Struct("q").unpack


class Told:
    """What is known of one name."""

    __slots__ = ("count", "due", "key", "recorder", "slot")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder = recorder
        self.key = recorder.intern(name)
        self.slot: int | None = None
        self.due = self.count = 0
        if sum(one.slot is not None and one.recorder is recorder for one in _told.values()) < SHOWN:
            self.slot = recorder.board_slot(Kind.METRIC, self.key)

    def show(self, now: int, step: int, bits: int) -> None:
        """Put it on the board, and say what it costs; one value stands for those since the last time."""
        if self.slot is not None:
            self.recorder.board(self.slot, Kind.METRIC, self.key, now, step, bits)
        self.due = now + SOON
        self.recorder.cost((clock() - now) * self.count, self.count)
        self.count = 0


def tell(recorder: Recorder, name: str, value: object, step: int) -> None:
    """One value, with the step plus one. What is no number is passed over."""
    number = value if type(value) is float else _number(value)
    if number is None:
        return
    now = clock()
    known = _told.get(name)
    if known is None or known.recorder is not recorder:
        known = _meet(recorder, name)
    (bits,) = as_word(as_double(number))
    recorder.event(Kind.METRIC, known.key, now, 0, step, bits)
    known.count += 1
    if now > known.due:
        known.show(now, step, bits)


def told_by_logger(name: object, value: object, step: object) -> None:
    """A scalar that a logging library is given: only what is named like a loss."""
    recorder = process.recorder
    if recorder is not None and type(name) is str and is_loss(name):
        tell(recorder, name, value, step + 1 if type(step) is int and step >= 0 else 0)


def is_loss(name: str) -> bool:
    return "loss" in name.lower()


def _meet(recorder: Recorder, name: str) -> Told:
    made = Told(recorder, name)
    if len(_told) < KNOWN or name in _told:
        _told[name] = made
    return made


def _number(value: object) -> float | None:
    """Of what is no plain float. No code of the user's is run, and no device is waited for."""
    kind = type(value)
    is_tensor = kind.__module__.startswith("torch") and kind.__name__ in ("Tensor", "Parameter")
    if is_tensor and value.device.type != "cpu":  # type: ignore[attr-defined]
        return None
    if not is_tensor and kind is not int and kind is not bool and kind.__module__ != "numpy":
        return None
    try:
        return float(value if kind in (int, bool) else value.item())  # type: ignore[attr-defined, arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):  # more than one number, or too large a one
        return None


_told: dict[str, Told] = {}
