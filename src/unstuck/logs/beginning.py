"""A rank's way to its first step, a line for each part of it as soon as that is over."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from ..inside import format as f
from ..inside.format import Kind
from ..model.phrases import duration, many
from .line import DEBUG, INFO, Line
from .tail import Record, Tail

START, FIRST, READY = "🔍 [START]", "🔍 [FIRST_BATCH]", "✅ [FIRST_BATCH]"
QUIET = 2.0  # seconds without a new parameter, after which the model is taken to be complete
# What names a folder of data or a batch size, whoever's training it is.
WANTED = re.compile(r"(DATA|DATASET|DATASETS|CORPUS|SHARD|SHARDS)_?(DIR|ROOT|PATH|HOME|CACHE)?|.*BATCH_?SIZE|HF_HOME")
SECRET = re.compile(r"token|secret|passw|credential|api_?key", re.IGNORECASE)
LONGEST = 200  # characters of a value


class Beginning:
    """One rank's lines."""

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._imported = self._modelled = self._told = self._sampled = False

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.EARLY: self._early}

    def lines(self, now: float, *, final: bool) -> list[Line]:
        """What the header says by now."""
        lines = [] if self._told else self._surroundings()
        header = self._tail.header
        if header[f.H_IMPORTED] and not self._imported:
            self._imported = True
            spent = (header[f.H_IMPORTED] - header[f.H_MONOTONIC]) / 1e9
            lines.append(self._line(header[f.H_IMPORTED], f"{START} imports: torch is there, after {duration(spent)}"))
        ended = header[f.H_MODEL_ENDED]
        still = ended and now - self._tail.seconds(ended) >= QUIET
        if ended and not self._modelled and (still or final or header[f.H_STEPS]):
            self._modelled = True
            lines.append(self._model(header))
        if header[f.H_FIRST_SAMPLE]:
            lines += self.sampled(header[f.H_FIRST_SAMPLE], self.name, self._tail)
        return lines

    def loading(self, loader: int, at: float) -> Line:
        """The first pass over a loader is asked for."""
        rank, world = max(self._tail.header[f.H_RANK] - 1, 0), self._tail.header[f.H_WORLD] or 1
        text = f"{self.name} {FIRST} loading begins: loader {loader}, rank {rank} of {world}"
        return Line(at, INFO, "data", text, main=False)

    def sampled(self, moment: int, whose: str, tail: Tail) -> list[Line]:
        """The first of all samples, whichever process has loaded it."""
        if self._sampled:
            return []
        self._sampled = True
        text = f"{whose} {FIRST} the first sample is loaded, a batch is being put together"
        return [Line(tail.seconds(moment), DEBUG, "data", text)]

    def _model(self, header: tuple[int, ...]) -> Line:
        spent = (header[f.H_MODEL_ENDED] - header[f.H_MODEL_BEGUN]) / 1e9
        made = f"{header[f.H_ELEMENTS]:,} parameters in {many(header[f.H_PARAMETERS], 'tensor')}"
        return self._line(header[f.H_MODEL_ENDED], f"{START} model: {made}, made in {duration(spent)}")

    def _early(self, one: Record) -> list[Line]:
        took = duration(one.duration / 1e9)
        if one.a:
            return [self._line(one.end, f"{FIRST} batch {one.a + 1} of loader {one.key} came after {took}", DEBUG)]
        try:
            looks = json.loads(self._tail.string(one.b) or "{}")
        except ValueError:
            looks = {}
        where = f", on {looks['device']}" if looks.get("device") else ""
        shapes = f": {looks['shapes']}{where}" if looks.get("shapes") else ""
        return [self._line(one.end, f"{READY} the first batch of loader {one.key} is ready after {took}{shapes}")]

    def _surroundings(self) -> list[Line]:
        """Variables that say where the data lies and how large a batch is, as the process was given them."""
        self._told = True
        given = _variables(self._tail.header[f.H_PID])
        found = [f"{name}={value[:LONGEST]}" for name, value in given.items() if _is_told(name)]
        at = self._tail.header[f.H_MONOTONIC]
        return [self._line(at, f"{START} variables: {', '.join(sorted(found))}")] if found else []

    def _line(self, moment: int, text: str, level: str = INFO) -> Line:
        return Line(self._tail.seconds(moment), level, "start", f"{self.name} {text}", main=False)


def _is_told(name: str) -> bool:
    parts = WANTED.fullmatch(name) or WANTED.search("_" + name)
    return parts is not None and bool(parts[0]) and not SECRET.search(name)


def _variables(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return {}
    pairs = (one.partition("=") for one in text.split("\0") if "=" in one)
    return {name: value for name, _, value in pairs}
