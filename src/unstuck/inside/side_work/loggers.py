"""Logging libraries that are set up, and values that the training is judged by, told by the user's code or a logger."""

from __future__ import annotations

import json
import struct
from types import FrameType
from typing import Any

from ..core.frames import user_line
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import H_ROLE, ROLE_MAIN, Kind
from ..redaction import redacted

LONGEST = 500  # characters of a folder or an address
SET_UPS = 200  # that are noted; a sweep in one process has as many as it likes
_noted: list[None] = []

SHOWN = 16  # names whose newest value stands on the board, which has to have room for loaders and stages
KNOWN = 1024  # names that are remembered; a program that makes them up has each looked up anew
SOON = 50_000_000  # nanoseconds between two values of a name on the board: that is the costly part
as_double, as_word = struct.Struct("d").pack, struct.Struct("q").unpack


def set_up(name: str, facts: dict[str, Any], frame: FrameType | None) -> None:
    """Note what a logger will do. Numbers and short texts only; an address is given without what it must not tell."""
    recorder = process.recorder
    if recorder is None or recorder.words[H_ROLE] != ROLE_MAIN or len(_noted) >= SET_UPS:
        return
    _noted.append(None)
    known = {key: redacted(value)[:LONGEST] if type(value) is str else value for key, value in facts.items() if value}
    text = json.dumps({"name": name, **known, "where": user_line(frame)}, ensure_ascii=False)
    recorder.note(Kind.LOGGER, recorder.intern(name), clock(), 0, recorder.intern(text))


def plain(address: object) -> str:
    """Scheme, host and port: neither who asks, nor with which password, nor what for."""
    if type(address) is not str or "://" not in address:
        return ""
    scheme, _, rest = address.partition("://")
    host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    return f"{scheme}://{host}"


class Metric:
    """What is known of one name."""

    __slots__ = ("count", "due", "key", "recorder", "slot")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder = recorder
        self.key = recorder.intern(name)
        self.slot: int | None = None
        self.due = self.count = 0
        if sum(one.slot is not None and one.recorder is recorder for one in _metrics.values()) < SHOWN:
            self.slot = recorder.board_slot(Kind.METRIC, self.key)

    def show(self, now: int, step: int, bits: int) -> None:
        """Put it on the board, and say what it costs; one value stands for those since the last time."""
        if self.slot is not None:
            self.recorder.board(self.slot, Kind.METRIC, self.key, now, step, bits)
        self.due = now + SOON
        self.recorder.cost((clock() - now) * self.count, self.count)
        self.count = 0


def tell_metric(recorder: Recorder, name: str, value: object, step: int) -> None:
    """One value, with the step plus one. What is no number is passed over."""
    number = value if type(value) is float else _number(value)
    if number is None:
        return
    now = clock()
    known = _metrics.get(name)
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
    if recorder is not None and type(name) is str and _is_loss(name):
        tell_metric(recorder, name, value, step + 1 if type(step) is int and step >= 0 else 0)


def _is_loss(name: str) -> bool:
    return "loss" in name.lower()


def _meet(recorder: Recorder, name: str) -> Metric:
    made = Metric(recorder, name)
    if len(_metrics) < KNOWN or name in _metrics:
        _metrics[name] = made
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


_metrics: dict[str, Metric] = {}
