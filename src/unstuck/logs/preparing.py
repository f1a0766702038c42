"""What accelerate's `prepare` made of a loader, before and after, and whether its batches can be shared out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..inside.format import Kind
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from .line import ERROR, INFO, Line

MARKER, BUCKETS = "🔍 [DISTRIBUTED]", "🔍 [BUCKETS]"
MISSING = "❌ [DISTRIBUTED]"
STANDARD = "torch.utils.data.sampler.BatchSampler"
DISPATCHER = "DataLoaderDispatcher"


class Preparing:
    """One rank's lines."""

    KINDS = (Kind.PREPARED,)

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.PREPARED: self._prepared}

    def _prepared(self, one: Record) -> list[Line]:
        """Told when it begins, and again with what came out of it."""
        try:
            known = json.loads(self._tail.string(one.a))
        except ValueError:
            return []
        at = self._tail.seconds(one.end)
        if "after" in known:
            return self._after(at, known, one.b)
        return self._before(at, known)

    def _before(self, at: float, known: dict[str, Any]) -> list[Line]:
        before, where = known.get("before") or {}, known.get("where") or {}
        place = f" at {str(where.get('file')).rpartition('/')[2]}:{where.get('line')}" if where else ""
        settings = ", ".join(
            f"{name}={known.get(name)}" for name in ("even_batches", "split_batches", "dispatch_batches")
        )
        lines = [
            self._line(at, f"{MARKER} before prepare{place}: {_described(before)}"),
            self._line(at, f"{MARKER} - batch_sampler: {_sampler(before)}"),
            self._line(at, f"{MARKER} - number of processes: {known.get('processes')}, this is {known.get('index')}"),
            self._line(at, f"{MARKER} - device: {known.get('device')}, {settings}"),
        ]
        if _is_bucketed(before):
            lines.append(self._line(at, f"{BUCKETS} - batch_indices in all: {_told(_batches(before))}"))
        if _will_fail(known):
            reason = "batch_size=None leaves nothing that could be shared out, the first batch will raise"
            text = f"{MISSING} batch_sampler is None{place}: {reason}"
            lines.append(Line(at, ERROR, "distributed", f"{self.name} {text}", key=True))
        return lines

    def _after(self, at: float, known: dict[str, Any], number: int) -> list[Line]:
        after = known["after"]
        loader = f", loader {number}" if number else ""
        shards = "".join(f", inside of {one}" for one in reversed(after.get("shards") or ()))
        return [
            self._line(at, f"{MARKER} after prepare: {_described(after)}{loader}"),
            self._line(at, f"{MARKER} - batch_sampler: {_sampler(after)}{shards}"),
        ]

    def _line(self, at: float, text: str) -> Line:
        return Line(at, INFO, "distributed", f"{self.name} {text}")


def _described(loading: dict[str, Any]) -> str:
    """Type, length and batch size."""
    length = _told(loading.get("length")) if not loading.get("failed") else f"none ({loading['failed']})"
    kind = "iterable" if loading.get("iterable") else "map-style"
    return (
        f"{loading.get('type')}, length {length}, batch_size {loading.get('batch_size')}, "
        f"dataset {kind}, length {_told(loading.get('dataset_length'))}"
    )


def _sampler(loading: dict[str, Any]) -> str:
    name = loading.get("batch_sampler")
    return "None" if name is None else f"<class '{name}'>"


def _told(number: object) -> str:
    return "not known" if number is None else str(number)


def _is_bucketed(before: dict[str, Any]) -> bool:
    """Somebody else than torch puts the batches together: a sampler, or the dataset itself."""
    return not before.get("iterable") and before.get("batch_sampler") != STANDARD


def _batches(before: dict[str, Any]) -> object:
    return before.get("dataset_length") if before.get("batch_sampler") is None else before.get("batches")


def _will_fail(known: dict[str, Any]) -> bool:
    """On several processes, unless the first one loads for all: see the rule accelerate-batch-sampler-none."""
    before = known.get("before") or {}
    nobody = before.get("batch_sampler") is None and before.get("batch_size") is None
    return (
        nobody
        and not before.get("iterable")
        and (known.get("processes") or 1) > 1
        and not known.get("dispatch_batches")
    )
