"""A process's part of a list of files, for every library that streams them: how many, how far, what went wrong.

An adapter makes one `Part` for each list it goes through (`part_of`), and tells it of every file and sample: `begins`,
then `opens`, `delivers` and `finishes` for each file, `fails` for what went wrong with it, and `ends`.
"""

from __future__ import annotations

import json
from types import FrameType
from typing import Any

from ..core.frames import user_frame
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..failures.exceptions import message_of
from ..format import Kind
from ..redaction import redacted

PARTS = 8  # lists that are kept apart: each takes a place on the board
SOON = 20_000_000  # nanoseconds between two stores on the board: a sample may take a few microseconds
ERRORS = 8, 24  # of one list that are noted: the first, and then every hundredth, up to so many
ENDS = 16  # passes whose end is noted
HALF = 32  # bits of a word with two numbers
MOST = (1 << 30) - 1
SHORT = 4  # files that gave fewer samples than others
LONGEST = 300  # characters of a message or a path


class Part:
    """What one process goes through of one list."""

    __slots__ = (
        "before", "began", "earlier", "erred", "failed", "finished", "key", "noted", "opened", "passes", "path",
        "recorder", "samples", "short", "shown", "slot", "told", "usual",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, facts: str) -> None:
        self.recorder = recorder
        self.key = recorder.intern(facts)
        self.slot = recorder.board_slot(Kind.SHARDS, self.key)
        self.opened = self.finished = self.samples = self.failed = self.passes = self.shown = 0
        self.began = self.earlier = 0  # of the newest pass: when it began, and samples of those before it
        self.before = self.noted = 0  # samples of the newest file; errors that were noted
        self.usual = 0  # the most samples that a file gave which was read to its end
        self.short: list[tuple[int, str]] = []  # files that gave the fewest samples, though they were read to their end
        self.erred: list[int] = []  # when errors of the newest file were
        self.path = self.told = ""  # of the newest file: as it is, and as it is written

    def begins(self) -> None:
        """A pass over it."""
        self.passes += 1
        self.began, self.earlier = clock(), self.samples
        if self.passes == 1:
            self.recorder.note(Kind.SHARDS, self.key, self.began, 0, self.passes)
        self.show()

    def ends(self, files: int | None = None) -> None:
        """A pass came to its end; `files` were this process's own in it, as far as that is known."""
        self.settle()
        self.settle_short()
        if self.passes <= ENDS:
            told, lasted = 0 if files is None else files + 1, max(clock() - self.began, 1)
            told |= min(self.usual, MOST) << HALF
            self.recorder.note(
                Kind.SHARDS, self.key, self.began, lasted, self.passes, told, self.samples - self.earlier
            )
        self.show()

    def opens(self, path: str) -> None:
        self.settle()
        self.opened += 1
        self.before = 0
        self.path, self.told = path, kept(path)
        self.show()

    def delivers(self, samples: int = 1) -> None:
        self.samples += samples
        self.before += samples
        if clock() - self.shown > SOON:
            self.show()

    def finishes(self) -> None:
        """The newest was read to its end."""
        self.finished += 1
        self.usual = max(self.usual, self.before)
        self.short = sorted({*self.short, (self.before, self.told)})[:SHORT]
        self.show()

    def fails(self, error: Exception, stage: str, **facts: Any) -> int:
        """When it was, if it was noted. `facts`: as in model.shards.ShardError; `slept` is in nanoseconds."""
        self.failed += 1
        self.show()
        first, most = ERRORS
        began = 0
        if self.noted < first or (self.noted < most and not self.failed % 100):
            self.noted += 1
            told = {"path": self.path, "type": type(error).__name__, "message": message_of(error)[:LONGEST], **facts}
            slept, newest = int(told.pop("slept", 0)), told["path"] == self.path
            told = {**told, "path": kept(told["path"]), "stage": stage}
            text, began = self.recorder.intern(json.dumps(told, ensure_ascii=False, default=str)), clock() - slept
            self.recorder.note(
                Kind.SHARD_ERROR, self.key, began, slept, text, max(self.before, 0) if newest else 0, slept
            )
            if newest:
                self.erred.append(began)
        return began

    def settle(self) -> None:
        """No more comes of the newest file: what it gave in all, beside each of its errors."""
        erred, self.erred = self.erred, []
        for began in erred:
            self.recorder.note(Kind.SHARD_ERROR, self.key, began, 0, 0, max(self.before, 0), self.usual)

    def settle_short(self) -> None:
        """Which files gave fewer samples than another: a reader takes a damaged one for a short one. Told once."""
        told, self.short = [one for one in self.short if one[0] < self.usual], []
        if self.passes == 1:
            for samples, path in told:
                text = self.recorder.intern(path)
                self.recorder.note(Kind.SHARD_SHORT, self.key, clock(), 0, text, samples, self.usual)

    def show(self) -> None:
        now = self.shown = clock()
        counts = self.opened, self.finished, self.samples, self.failed
        self.recorder.board_text(self.slot, Kind.SHARDS, self.key, now, self.told, *counts)
        self.recorder.cost(clock() - now)


def kept(path: str) -> str:
    """Without its secrets, and of a long one the end. It is cut last: half a secret has no shape."""
    return redacted(path)[-LONGEST:]


class Parts:
    """Those of this process's recording."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.known: dict[str, Part] = {}

    def begins_recording(self, recorder: Recorder) -> None:
        self.recorder, self.known = recorder, {}
        process.remembered.append(self.settle)

    def settle(self) -> None:
        for one in list(self.known.values()):
            if one.recorder is process.recorder:
                one.settle()
                one.settle_short()
                one.show()


def part_of(library: str, frame: FrameType | None = None, **facts: Any) -> Part | None:
    """`facts`: as in model.shards.Shards. None when nothing records, and where there are too many lists."""
    recorder = process.recorder
    if recorder is None:
        return None
    if recorder is not parts.recorder:
        parts.begins_recording(recorder)
    line = user_frame(frame)
    where = line and {"file": line.f_code.co_filename, "line": line.f_lineno, "function": line.f_code.co_name}
    text = json.dumps({"library": library, "where": where, **facts}, ensure_ascii=False, default=str)
    found = parts.known.get(text)
    if found is None and len(parts.known) < PARTS:
        found = parts.known[text] = Part(recorder, text)
    return found


parts = Parts()
