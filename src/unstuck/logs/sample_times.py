"""On request: what every sample took, stage by stage, as lines of its rank's log.

[study_001] Volume decode: 0.1234s (shape=(1024, 1024, 251))
[study_001] process: 2.3456s
[study_001] TOTAL: 2.4694s (index 17)
"""

from __future__ import annotations

from ..inside.format import Kind
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from .line import DEBUG, Line

KINDS = (Kind.STAGE, Kind.SAMPLE)
SAMPLES = "samples"  # who says it
KEPT = 4096  # stages whose sample is still to come
ENOUGH = 0.00005  # seconds outside of all stages that are worth a line: those are printed to a tenth of a millisecond


class SampleTimes:
    """Of one process."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._stages: list[Record] = []

    def lines(self, whose: str, records: list[Record]) -> list[Line]:
        self._stages = [*self._stages, *(one for one in records if one.kind == Kind.STAGE and one.c)][-KEPT:]
        return [line for one in records if one.kind == Kind.SAMPLE for line in self._of(whose, one)]

    def _of(self, whose: str, sample: Record) -> list[Line]:
        """Stages are written when they end, their sample some time later: when its batch is done."""
        mine = [one for one in self._stages if sample.start <= one.start <= sample.end]
        self._stages = [one for one in self._stages if one.start > sample.end]
        items = sorted((one for one in mine if one.a), key=lambda one: -one.c)  # what the user named comes first
        named = self._tail.string(items[0].a) if items else ""
        index = f"index {sample.a}" if sample.a >= 0 else f"number {sample.b} of its stream"
        name = named or index
        lines = [self._stage(whose, one, name) for one in mine]
        rest = sample.duration - sum(one.duration for one in _outermost(mine))
        if mine and rest / 1e9 >= ENOUGH:
            lines.append(self._line(whose, sample, f"[{name}] process: {rest / 1e9:.4f}s"))
        also = f" ({index})" if named else ""
        return [*lines, self._line(whose, sample, f"[{name}] TOTAL: {sample.duration / 1e9:.4f}s{also}")]

    def _stage(self, whose: str, one: Record, name: str) -> Line:
        shape = f" (shape={self._tail.string(one.b)})" if one.b else ""
        item = self._tail.string(one.a) if one.a else name
        text = f"[{item}] {self._tail.string(one.key)}: {one.duration / 1e9:.4f}s{shape}"
        return self._line(whose, one, text)

    def _line(self, whose: str, one: Record, text: str) -> Line:
        return Line(self._tail.seconds(one.end), DEBUG, SAMPLES, f"{whose} {text}")


def _outermost(stages: list[Record]) -> list[Record]:
    """Those that no other is around."""
    return [
        one
        for one in stages
        if not any(other is not one and other.start <= one.start and one.end <= other.end for other in stages)
    ]
