"""What a worker tells of its dataset and of what it hands over: a little at the beginning of a pass, then seldom."""

from __future__ import annotations

import json
from typing import Any

from . import contents, dataset_state
from .format import Kind
from .process import process
from .recorder import Recorder, clock

PASSES = 8  # of which states are told, and
DIGESTED = 4  # contents
BATCHES = 8  # of a pass whose content is told
HANDED = 16  # batches that are told in all


class WorkerFacts:
    """Of one worker. `due` is the number of batches after which the next is looked at; 0: none is any more."""

    __slots__ = ("before", "digests", "due", "handed", "iterable", "passes", "recorder")

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.passes = self.handed = self.due = 0
        self.iterable = False
        self.before: dict[str, str] = {}
        self.digests: list[int] = []
        process.remembered.append(self.flush)

    def pass_begins(self, dataset: Any, batches: int, *, iterable: bool) -> None:
        self.flush()
        self.passes += 1
        self.iterable = iterable
        self.due = batches + 1 if self.passes <= PASSES else 0
        if self.passes <= PASSES:
            self._note(dataset, 0)

    def looks(self, dataset: Any, data: Any, batches: int) -> None:
        """A batch is made, the one that was to be looked at."""
        begun = clock()
        digested = self.iterable and self.passes <= DIGESTED and len(self.digests) < BATCHES
        if not self.digests and self.due and self.passes <= PASSES and self.before is not NOTHING:
            self._note(dataset, 1)
            self.before = NOTHING
        seen = contents.look(data, digest=digested)
        if digested:
            self.digests.append(seen.digest)
        if self.handed < HANDED:
            self.handed += 1
            note = (begun, batches - 1, seen.tensors, seen.size, seen.storage)
            self.recorder.note(Kind.HANDED, 0, *note)
        going_on = digested and len(self.digests) < BATCHES
        self.due = batches + 1 if going_on else batches * 2 if self.handed < HANDED else 0
        self.recorder.cost(clock() - begun)

    def flush(self) -> None:
        """The contents are told together, once they are complete or the pass is over."""
        if self.digests:
            digests, self.digests = self.digests, []
            self.recorder.note(Kind.DIGESTS, 0, clock(), 0, self.passes, 0, self._text(digests))

    def _note(self, dataset: Any, after: int) -> None:
        """The state before the first batch; after it, the generators that were drawn from."""
        begun = clock()
        if after:
            now = dataset_state.generators(dataset)
            drawn = {name: state for name, state in now.items() if self.before.get(name) != state}
            told: dict[str, Any] = {"generators": drawn}
        else:
            self.before = dataset_state.generators(dataset)
            told = {"numbers": dataset_state.numbers(dataset), "generators": self.before}
        self.recorder.note(Kind.STATE, 0, begun, 0, self.passes, after, self._text(told))
        self.recorder.cost(clock() - begun)

    def _text(self, told: Any) -> int:
        return self.recorder.intern(json.dumps(told, ensure_ascii=False))


NOTHING: dict[str, str] = {}
