"""Turns what one DataLoader worker records into lines: its board says enough, its ring is too quick to follow."""

from __future__ import annotations

from ..inside import format as f
from ..inside.format import Kind
from ..recordings.decoder import FETCH_KINDS, Entry, Record
from ..recordings.tail import Tail
from ..wording.text import duration
from . import failures
from .data import ShardLines, in_worker, samples_of_shards
from .files import DEBUG, INFO, Line, Settings
from .rank import ACCESS, MainProcess, SampleTimes

PROGRESS_EVERY = 30.0  # seconds between two lines about the samples of one worker
ITEM_EVERY = 10.0  # seconds between two lines about what the user's own stages have in hand


class Worker:
    """One worker of one rank's loader."""

    def __init__(self, tail: Tail, settings: Settings) -> None:
        self.tail = tail
        self._shards = ShardLines(tail)
        self._each = SampleTimes(tail) if settings.samples else None
        self.pid, self.parent = tail.header[f.H_PID], tail.header[f.H_PARENT]
        self._first = True
        self._due, self._said = 0.0, 0
        self._told = 0.0
        self._item = ""
        self._samples = 0
        self._seen: list[Record] = []  # events that no line was made of yet

    def lines(self, now: float, main: MainProcess, *, final: bool) -> list[Line]:
        """There are many workers: mostly, one word of each is all that is read."""
        if not final and now < self._due and self.tail.word(f.H_LAST_WORDS) == self._said and self._each is None:
            return []
        header = self.tail.look()
        known = final or self.pid in main.known.workers  # else it is told next time, when it is known what it reads
        self._said = header[f.H_LAST_WORDS] if known else self._said
        whose = main.worker(
            header[f.H_WORKER] - 1 if header[f.H_WORKER] else main.known.workers.get(self.pid, (0, 0))[1]
        )
        board = self.tail.board()
        fetch = next((one for one in board if one.kind in FETCH_KINDS), None)
        lines = self._access(whose, fetch, now) + self._in_hand(whose, board) + self._shards.lines(whose)
        if self._first and now - self._told >= ITEM_EVERY:  # on the way to its first sample
            self._told = now
            lines += in_worker(whose, board, now, self.tail)
        if self._each is not None and not self._first:
            lines += self._each.lines(whose, self._seen + self.tail.ring.new())
            self._seen = []
        if header[f.H_FIRST_SAMPLE]:
            lines += main.beginning.sampled(header[f.H_FIRST_SAMPLE], whose, self.tail)
        self._due = now + (0.0 if self._first else ITEM_EVERY)
        loader = main.known.workers.get(self.pid, (0, 0))[0]
        iterable = main.known.iterable.get(loader, False)
        for said in self.tail.new_last_words() if known else ():
            at = self.tail.seconds(int(said.get("at", 0)))
            lines.append(failures.failed(whose, at, said, iterable=iterable))
        if final and header[f.H_ENDED] and header[f.H_ENDED_HOW] == f.ENDED_LOOP:
            fetched = fetch.b if fetch else self._samples
            samples = fetched or samples_of_shards(board)  # of ready-made batches none count
            text = f"{whose} COMPLETED iteration, total samples: {samples}"
            lines.append(Line(self.tail.seconds(header[f.H_ENDED]), INFO, "data", text, main=False))
        return sorted(lines, key=lambda one: one.at)

    def _access(self, whose: str, fetch: Entry | None, now: float) -> list[Line]:
        if fetch is None:
            return []
        self._samples, samples = fetch.b, fetch.b
        if self._first:
            return self._first_sample(whose, fetch, now)
        if now - self._told < PROGRESS_EVERY or fetch.kind == Kind.IDLE:
            return []
        self._told = now
        index = f", now at index {fetch.c}" if fetch.c >= 0 else ""
        since = duration(max(now - self.tail.seconds(fetch.since), 0))
        return [Line(now, DEBUG, "data", f"{whose} {ACCESS} {samples:,} samples read{index} for {since}")]

    def _first_sample(self, whose: str, fetch: Entry, now: float) -> list[Line]:
        """From the ring, this once; if that is too late already, from the board."""
        new = self.tail.ring.new()
        self._seen += new if self._each is not None else []
        sample = next((one for one in new if one.kind == Kind.SAMPLE), None)
        if sample is not None and not self.tail.ring.missed:
            self._first, self._told = False, now
            index = f"index {sample.a}" if sample.a >= 0 else "of a stream"
            text = f"{whose} {ACCESS} first sample: {index}, in {duration(sample.duration / 1e9)}"
            return [Line(self.tail.seconds(sample.start), DEBUG, "data", text)]
        if fetch.kind != Kind.SAMPLE and not fetch.b:
            return []
        self._first, self._told = False, now
        index = f"index {fetch.c}" if fetch.c >= 0 else "a stream"
        return [Line(self.tail.seconds(fetch.since), DEBUG, "data", f"{whose} {ACCESS} first access: now at {index}")]

    def _in_hand(self, whose: str, board: list[Entry]) -> list[Line]:
        """The file or shard that `unstuck.stage(…, item=path)` names."""
        stage = next((one for one in board if one.kind == Kind.STAGE and one.a and one.text), None)
        if stage is None or stage.text == self._item:
            return []
        self._item = stage.text
        text = f"{whose} {ACCESS} {self.tail.string(stage.key)}: {stage.text}"
        return [Line(self.tail.seconds(stage.since), DEBUG, "data", text)]
