"""A rank's way to its first step, a line for each part of it as soon as that is over."""

from __future__ import annotations

from collections.abc import Callable

from ..inside import format as f
from ..inside.core.run_folder import process_start
from ..inside.format import Kind
from ..inside.redaction import redacted
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from ..wording.text import duration, many
from .files import DEBUG, INFO, Line

START, FIRST, READY = "🔍 [START]", "🔍 [FIRST_BATCH]", "✅ [FIRST_BATCH]"
QUIET = 2.0  # seconds without a new parameter, after which the model is taken to be complete
# Variables that say where data lies and how large a batch is, by their exact names: others may hold anything.
WANTED = (
    "BATCH_SIZE", "CORPUS_DIR", "CORPUS_PATH", "DATADIR", "DATASETS_DIR", "DATASET_DIR", "DATASET_PATH", "DATASET_ROOT",
    "DATA_DIR", "DATA_FOLDER", "DATA_HOME", "DATA_PATH", "DATA_ROOT", "DEVICE_BATCH_SIZE", "EVAL_BATCH_SIZE",
    "GLOBAL_BATCH_SIZE", "HF_DATASETS_CACHE", "HF_HOME", "MICRO_BATCH_SIZE", "NANOCHAT_BASE_DIR",
    "OPENSEEK_NANOCHAT_DATA_DIR", "PER_DEVICE_BATCH_SIZE", "PER_DEVICE_EVAL_BATCH_SIZE", "PER_DEVICE_TRAIN_BATCH_SIZE",
    "SHARDS_DIR", "SHARD_DIR", "TEST_DATA_DIR", "TOTAL_BATCH_SIZE", "TRAIN_BATCH_SIZE", "TRAIN_DATA", "TRAIN_DATA_DIR",
    "TRAIN_DATA_PATH", "VALIDATION_DATA_DIR", "VAL_BATCH_SIZE", "VAL_DATA", "VAL_DATA_DIR", "VAL_DATA_PATH",
)  # fmt: skip
LONGEST = 200  # characters of a value


class Beginning:
    """One rank's lines."""

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._imported = self._modelled = self._told = self._sampled = False
        self._given = _variables(tail.header)  # now: when there is something to tell, a short run may be over

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
        looks = self._tail.facts(one.b)
        where = f", on {looks['device']}" if looks.get("device") else ""
        shapes = f": {looks['shapes']}{where}" if looks.get("shapes") else ""
        return [self._line(one.end, f"{READY} the first batch of loader {one.key} is ready after {took}{shapes}")]

    def _surroundings(self) -> list[Line]:
        """Variables that say where the data lies and how large a batch is, as the process was given them."""
        self._told = True
        found = [f"{name}={redacted(self._given[name])[:LONGEST]}" for name in WANTED if name in self._given]
        at = self._tail.header[f.H_MONOTONIC]
        return [self._line(at, f"{START} variables: {', '.join(found)}")] if found else []

    def _line(self, moment: int, text: str, level: str = INFO) -> Line:
        return Line(self._tail.seconds(moment), level, "start", f"{self.name} {text}", main=False)


def _variables(header: tuple[int, ...]) -> dict[str, str]:
    """Of this very process: its pid may be somebody else's by now, or on this machine."""
    pid = header[f.H_PID]
    if process_start(pid) != header[f.H_STARTED]:
        return {}
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return {}
    pairs = (one.partition("=") for one in text.split("\0") if "=" in one)
    return {name: value for name, _, value in pairs}
