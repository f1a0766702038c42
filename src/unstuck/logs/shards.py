"""Lists of files that a process goes through: its part of them, and every error that was met on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..inside.format import H_WORKERS, H_WORLD, Kind
from ..recordings.decoder import Entry, Record
from ..recordings.tail import Tail
from ..wording.text import duration, many
from .line import DEBUG, ERROR, INFO, Line

READERS = "readers"
HALF = (1 << 32) - 1
ALONE = "single_node_only"  # what webdataset has in place of a splitter, to refuse several ranks
WHAT = {"open": "Error opening shard", "read": "Error reading shard", "group": "Error reading shard"}


class ShardLines:
    """Those of one process: a rank, or one of its workers."""

    KINDS = (Kind.SHARDS, Kind.SHARD_ERROR)

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._samples = 0  # of passes that have ended, and were not asked for yet

    def taken(self) -> int:
        """Samples of the passes over all lists that have ended since it was asked last."""
        samples, self._samples = self._samples, 0
        return samples

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.SHARDS: self._shards, Kind.SHARD_ERROR: self._error}

    def lines(self, name: str) -> list[Line]:
        """What is new, of a process whose other notes nobody reads."""
        self.name = name
        read = self.readers()
        return [line for one in self._tail.notes.new() if one.kind in read for line in read[one.kind](one)]

    def _shards(self, one: Record) -> list[Line]:
        """Noted when the first pass begins, and when one has ended."""
        known, at = self._known(one.key), self._tail.seconds(one.end)
        if known.get("library") == READERS:  # it is there for its errors alone
            return []
        whole = known.get("name") or known.get("library")
        if one.duration:
            self._samples += one.c
            own = one.b & HALF
            files = many(own - 1, "file") if own else "all its files"
            lasted = duration(one.duration / 1e9)
            text = f"{self.name} went through {files} of {whole} in {lasted}, pass {one.a}, samples: {one.c}"
            return [Line(at, DEBUG, "data", text)]
        mine, total = known.get("mine"), known.get("total")
        shown = f"{'?' if mine is None else mine}/{'?' if total is None else total}"
        drawn = ", drawn at random with replacement" if known.get("resampled") else ""
        splitter = known.get("splitter")
        shared = f", shared out by {splitter}" if splitter and splitter != ALONE else ""
        text = f"{self._whole_name()} Processing {shown} files from {whole} ({known.get('library')}{shared}{drawn})"
        return [Line(at, DEBUG if mine != 0 else INFO, "data", text)]

    def _error(self, one: Record) -> list[Line]:
        known = self._known(one.a)
        if not known:  # it says what became of the file
            return []
        stage = str(known.get("stage"))
        sample = f" sample {known['key']} of" if known.get("key") else " a sample of"
        what = WHAT.get(stage) or f"Error in {stage} of{sample} shard"
        after = f" after {many(one.b, 'sample')}" if one.b and stage == "read" else ""
        said = f"{known.get('type')}: {known.get('message')}".strip()
        text = f"❌ {self.name} {what} {known.get('path')}{after}: {said}; {_then(known, one.c / 1e9)}"
        return [Line(self._tail.seconds(one.end), ERROR, "data", text)]

    def _whole_name(self) -> str:
        """[Rank 0/8 Worker 0/2]: of how many, as far as that is known."""
        world, workers = self._tail.header[H_WORLD], self._tail.header[H_WORKERS]
        rank, worker, number = self.name[1:-1].partition(" Worker ")
        rank += f"/{world}" if world else ""
        return f"[{rank}{worker}{number}{f'/{workers}' if worker and workers else ''}]"

    def _known(self, number: int) -> dict[str, Any]:
        try:
            known = json.loads(self._tail.string(number))
        except ValueError:
            return {}
        return known if isinstance(known, dict) else {}


def samples(board: list[Entry]) -> int:
    """That came out of the files of all lists."""
    return sum(one.c for one in board if one.kind == Kind.SHARDS)


def _then(known: dict[str, Any], slept: float) -> str:
    """What the handler decided, and what that means."""
    if not known.get("handler"):
        return "it was raised to whoever called"
    took = f" after {duration(slept)}" if slept >= 0.1 else ""
    if known.get("list_lost"):
        return f"{known['handler']} ended the reading{took}, nothing more is read of this list"
    lost = ", the rest of the shard is left out" if known.get("rest_lost") else ""
    lost = ", the whole shard is left out" if known.get("stage") == "open" else lost
    went = "went on" if known.get("goes_on") else "gave it up"
    return f"{known['handler']} {went}{took}{lost}"
