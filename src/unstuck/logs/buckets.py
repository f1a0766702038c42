"""Lines about bucketed datasets, step by step, and what their batches come to; about notes, and about resuming."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..inside import format as f
from ..inside.format import Kind
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from ..wording.text import duration, many
from .line import DEBUG, INFO, Line

BUCKETS, SETUP, DISTRIBUTED = "🔍 [BUCKETS]", "🔍 [SETUP_EPOCH]", "🔍 [DISTRIBUTED]"
EPOCH = "setup_epoch"
TOLD = "BUCKETS"  # a note under this tag is told as buckets


class BucketLines:
    """One rank's lines."""

    KINDS = (Kind.BUCKETS, Kind.NOTE, Kind.SKIPPING)

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._listed: dict[int, dict[str, int]] = {}  # buckets of each dataset that were told one by one
        self._batches: dict[int, int] = {}  # and how many batches they make

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.BUCKETS: self._buckets, Kind.NOTE: self._note, Kind.SKIPPING: self._skipping}

    def _buckets(self, one: Record) -> list[Line]:
        known = self._facts(one.a)
        at, name = self._tail.seconds(one.end), str(known.get("dataset") or "").rpartition(".")[2] or "the dataset"
        if known.get("step"):
            return self._stepped(at, name, known, one.duration / 1e9)
        if one.b:
            return [self._line(at, f"{BUCKETS} {name} is read by loader {one.b}"), *self._dealt(at, known)]
        return [
            self._line(at, f"{BUCKETS} {name}, as the program says"),
            *self._each(at, known),
            *self._dealt(at, known),
        ]

    def _stepped(self, at: float, name: str, known: dict[str, Any], seconds: float) -> list[Line]:
        """setup_buckets lists the buckets, build_batch_indices tells the batches, setup_epoch only that it was."""
        step = known["step"]
        where = known.get("where") or {}
        place = f" ({str(where.get('file')).rpartition('/')[2]}:{where.get('line')})" if where else ""
        marker = SETUP if step == EPOCH else BUCKETS
        head = self._line(at, f"{marker} {name}.{step}{place} ✓ in {duration(seconds)}: {_in_all(known)}")
        return [head] if step == EPOCH else [head, *self._each(at, known)]

    def _each(self, at: float, known: dict[str, Any]) -> list[Line]:
        files, which = known.get("files") or {}, known.get("which") or 0
        lines = []
        if files and self._listed.get(which) != files:
            self._listed[which] = files
            lines += [self._line(at, f"{BUCKETS} - {bucket}: {many(count, 'file')}") for bucket, count in files.items()]
            hidden = (known.get("count") or 0) - len(files)
            lines += [self._line(at, f"{BUCKETS} - and {many(hidden, 'smaller bucket')}")] if hidden > 0 else []
        partial = known.get("partial")
        rest = f", {partial:,} of them not full" if partial else ""
        if known.get("batches") is not None and self._batches.get(which) != known["batches"]:
            self._batches[which] = known["batches"]
            lines.append(self._line(at, f"{BUCKETS} - batch_indices in all: {known['batches']}{rest}"))
        return lines

    def _dealt(self, at: float, known: dict[str, Any]) -> list[Line]:
        """X over Y: what is left over, before anybody evens it out."""
        total, ranks = known.get("batches"), self._tail.header[f.H_WORLD]
        if not isinstance(total, int) or ranks < 2:
            return []
        each, rest = divmod(total, ranks)
        text = f"{many(total, 'batch')}, the same list on all of {ranks} processes: {each} each"
        if not rest:
            return [self._line(at, f"{DISTRIBUTED} - {text}, nothing left over", DEBUG)]
        text += (
            f", remainder {rest}: ranks 0 to {rest - 1} get {each + 1}"
            if rest > 1
            else f", remainder 1: one gets {each + 1}"
        )
        evened = (
            f"evened out (even_batches, DistributedSampler), {many(ranks - rest, 'batch')} would be given out twice"
        )
        return [self._line(at, f"{DISTRIBUTED} - {text}; {evened}")]

    def _note(self, one: Record) -> list[Line]:
        tag, known = self._tail.string(one.key), self._facts(one.a)
        if tag.upper() == TOLD:
            return []
        facts = ", ".join(f"{name}={value}" for name, value in known.items())
        return [self._line(self._tail.seconds(one.end), f"🔍 [{tag}] {facts}")]

    def _skipping(self, one: Record) -> list[Line]:
        """A resumed training: no step is made while it lasts, and that is as it should be."""
        count = many(one.a, "batch") if one.a else "batches"
        text = f"{SETUP} passing over {count} of loader {one.key} that were trained before ({self._tail.string(one.b)})"
        return [self._line(self._tail.seconds(one.end), text)]

    def _facts(self, string: int) -> dict[str, Any]:
        try:
            known = json.loads(self._tail.string(string))
        except ValueError:
            return {}
        return known if isinstance(known, dict) else {}

    def _line(self, at: float, text: str, level: str = INFO) -> Line:
        return Line(at, level, "buckets", f"{self.name} {text}")


def _in_all(known: dict[str, Any]) -> str:
    size = f", batch_size {known['batch_size']}" if known.get("batch_size") else ""
    buckets, files = many(known.get("count") or 0, "bucket"), many(known.get("total_files") or 0, "file")
    return f"{buckets}, {files}, {many(known.get('batches') or 0, 'batch')}{size}"
