"""Values that the training told, and when a line is due for one."""

from __future__ import annotations

import functools
import math

from .line import DEBUG, WARNING, Line
from .settings import Settings
from .trends import Trend

NAMES = 64  # of which lines are written; a program that makes up names would fill the log
RARE = 10.0  # seconds: what is told once an epoch is written each time
OF_VALIDATION = ("val", "eval", "test")


class Losses:
    """One rank's. A line for the first value of each name, then one every so many steps, or after a while."""

    def __init__(self, settings: Settings) -> None:
        self._every = settings.every
        self._due: dict[str, int] = {}
        self._told: dict[str, float] = {}
        self._count: dict[str, int] = {}
        self._broken: set[str] = set()
        self._trends: dict[str, Trend] = {}

    def told(self, rank: str, at: float, name: str, value: float, step: int | None) -> list[Line]:
        if name not in self._due and len(self._due) >= NAMES:
            return []
        count = self._count.get(name, 0)
        self._count[name] = count + 1
        step = count if step is None else step
        lines = self.nonsense(rank, at, name, value, step)
        trend = self._trends.setdefault(name, Trend())
        trend.add(at, step, value)
        due = self._due.get(name)
        rare = at - self._told.get(name, 0.0) > RARE
        if due is None or rare or step >= due or step < due - self._every:  # it may begin anew
            self._due[name], self._told[name] = (step // self._every + 1) * self._every, at
            lines.append(Line(at, DEBUG, "loop", f"{rank} {_words(name, value, step)}{trend.words()}", key=True))
        return lines

    def nonsense(self, rank: str, at: float, name: str, value: float, step: int) -> list[Line]:
        if math.isfinite(value) or name in self._broken:
            return []
        self._broken.add(name)
        return [Line(at, WARNING, "loop", f"{rank} ⚠️ {name} is {value} at step {step}", key=True)]


@functools.lru_cache(NAMES)  # it is asked for every value there is
def is_of_validation(name: str) -> bool:
    return any(part in name.lower() for part in OF_VALIDATION)


def _words(name: str, value: float, step: int) -> str:
    kind = "Validation value" if is_of_validation(name) else "Training step"
    if "loss" not in name.lower() or name == "loss":
        return f"{kind} {step}, {name}={value:.4f}"
    return f"{kind} {step}, loss={value:.4f} ({name})"
