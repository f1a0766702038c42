"""Asks a child that measures: one setting after the other, as a search wants them, within the time there is.

The child is a trial like any other and `attempt` waits for it; meanwhile it calls `tick`, where answers are read and
the next question is put down. A child that dies or hangs has answered with that, and another goes on with what is left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...evidence.trial import Measured
from ...inside.core import run_folder
from ...safe_files import write_private
from ..attempt import Limits, Outcome, Work, attempt
from ..doctor.verdicts import failure_of, reason_of
from .search import Questions
from .standings import Bounds, Setting, Standings

MOST_CHILDREN = 6  # that may die before it is given up: each pays for importing torch again
STALL = 30.0  # seconds without a batch after which a setting hangs
IMPORTING = 120.0  # seconds for importing the target and making its loader
AFTERWARDS = 30.0  # seconds beyond the time there is, for a setting that is being measured
SETTINGS = 16  # that the time there is has to be enough for
SHORTEST, LONGEST = 0.3, 4.0  # seconds for one of them
BEFORE, BEFORE_MOST = 1 / 15, 5.0  # of the time there is, and seconds, for reading data that is not measured

Begin = Callable[[Standings, dict[str, Any]], Questions]  # what to ask, when it is known what the child can do
Tell = Callable[[str, int, float], None]  # the setting that is measured, how many were, seconds that are left


class Conversation:
    """All that was asked and answered, by however many children."""

    def __init__(self, work: Work, wishes: dict[str, Any], seconds: float, begin: Begin, tell: Tell) -> None:
        self.work, self.wishes, self.seconds, self._begin, self._tell = work, wishes, seconds, begin, tell
        self.about: dict[str, Any] = {}  # what the child said at first
        self.facts: dict[str, Any] = {}
        self.outcomes: list[Outcome] = []  # of children that failed
        self.folders: list[Path] = []
        self.seen = Standings(Bounds(1))
        self.began: float | None = None  # of measuring
        self.ended = ""
        self.each: float | None = None  # seconds for one setting, if it is not to be divided among all
        self._questions: Questions | None = None
        self._next: Setting | None = None
        self._asked = -1  # the number of the question that is not answered yet
        self._asked_at = 0.0

    def hold(self, bounds: Bounds) -> None:
        """Until the search has all it wants, the time is up, or nothing works."""
        self.seen = Standings(bounds)
        for number in range(1, MOST_CHILDREN + 1):
            name = f"measuring-{number}"
            self.folders.append(self.work.folder.absolute() / f"trial-{run_folder.safe(name)}")
            self._asked = 0
            limits = Limits(self._left() + AFTERWARDS + IMPORTING, bounds.memory, STALL, lightly=True)
            options = {**self.wishes, "before": min(self.seconds * BEFORE, BEFORE_MOST) if number == 1 else 0.0}
            outcome = attempt("measure", name, self.work, options, limits, self._tick)
            if outcome.done:
                return
            self.outcomes.append(outcome)
            if self._questions is None:  # it could not even begin
                return
            if self._next is not None and self._asked > 0:
                found = failure_of(outcome)
                findings = outcome.report.findings if outcome.report is not None else []
                self._take({"failed": reason_of(outcome, findings, found, limits)})
            if self._next is None:
                return
        self.ended = f"{MOST_CHILDREN} measuring processes ended before they were finished"

    def _left(self) -> float:
        return self.seconds if self.began is None else max(self.seconds - (time.monotonic() - self.began), 0.0)

    def _tick(self, _: float) -> None:
        if self._asked < 0:  # it was told to end
            return
        answer = _read(self.folders[-1] / f"answer-{self._asked}.json")
        if answer is None:
            self._tell(self._next.words() if self._next is not None else "", len(self.seen.order), self._left())
            return
        if self._asked == 0:
            self._hello(answer)
        else:
            self._take(answer)
        self._ask()

    def _hello(self, about: dict[str, Any]) -> None:
        if self._questions is not None:  # another child, the same search
            return
        self.about, self.began = about, time.monotonic()
        self.facts = _read(self.folders[-1] / "facts.json") or {}
        self._questions = self._begin(self.seen, self.facts.get("loader") or {})
        self._next = next(self._questions, None)

    def _take(self, answer: dict[str, Any]) -> None:
        """Hand the answer on and hear what is wanted next. The time is up when another like it would not fit."""
        if self._questions is None or self._next is None:
            return
        found = measured(self._next, {"took": time.monotonic() - self._asked_at, **answer})
        self._next = _send(self._questions, found)
        if self._next is not None and self._left() < min(found.took, self.seconds / 4):
            self.ended, self._next = "the time was up before everything was tried: --seconds N gives it more", None
            self._questions.close()

    def _ask(self) -> None:
        number = self._asked + 1
        question: dict[str, Any] = {}
        if self._next is not None:
            each = self.each or min(max(self.seconds / SETTINGS, SHORTEST), LONGEST)
            question = {**self._next._asdict(), "seconds": each}
        write_private(self.folders[-1] / f"ask-{number}.json", json.dumps(question).encode())
        self._asked = number if self._next is not None else -1
        self._asked_at = time.monotonic()


def _send(questions: Questions, found: Measured) -> Setting | None:
    try:
        return questions.send(found)
    except StopIteration:
        return None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found


def measured(setting: Setting, answer: dict[str, Any]) -> Measured:
    known = {name: answer[name] for name in Measured.__struct_fields__ if answer.get(name) is not None}
    if known.get("read") and known.get("seconds"):
        known["bytes_rate"] = known["read"] / known["seconds"]
    return Measured(**{**known, "name": setting.words(), **setting._asdict()})
