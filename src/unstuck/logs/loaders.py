"""Lines about DataLoaders: what each is and how long, what accelerate made of it, and how a rank meets the others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ..inside import format as f
from ..inside.format import Kind
from ..recordings.decoder import Entry, Record
from ..recordings.tail import Tail
from ..wording.text import duration
from .files import DEBUG, ERROR, INFO, WARNING, Line

FLOW, DATASET = "🔍 [DATA_FLOW]", "🔍 [DATASET_INIT]"
PARAMETERS = (
    "batch_size", "shuffle", "drop_last", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory",
    "timeout", "in_order", "sampler", "batch_sampler", "collate_fn", "worker_init_fn", "context",
)  # fmt: skip
CACHE = re.compile(r"cache|latent", re.IGNORECASE)
BUCKET = re.compile(r"bucket|resolution|aspect", re.IGNORECASE)
FILES = re.compile(r"file|path|shard|url", re.IGNORECASE)
LISTED = re.compile(r"(?:list|tuple|dict|set) of (\d+)")
# Streams of libraries whose own lines say which files a worker has: see data.py.
TOLD_APART = ("datasets.iterable_dataset.", "webdataset.", "litdata.", "streaming.")
STANDARD = "torch.utils.data.sampler.BatchSampler"
PREPARE, BUCKETS = "🔍 [DISTRIBUTED]", "🔍 [BUCKETS]"
MISSING = "❌ [DISTRIBUTED]"
STANDARD = "torch.utils.data.sampler.BatchSampler"
DISPATCHER = "DataLoaderDispatcher"
MARKER = "[DISTRIBUTED]"
LONG_WAIT = 1.0  # seconds: a wait that takes longer has a line while it goes on
BLOCKS = ("Join", "main_process_first", "local_main_process_first")  # in which a rank does its own work
PASSED = 1024  # places whose first passing has a line; a program that makes up places gets no more lines
NOT_MADE = 2


class KnownLoader:
    """What is known of one loader."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.length: int | None = None


def described(rank: str, at: float, number: int, text: str) -> list[Line]:
    """A loader that is seen for the first time."""
    known = _decoded(text)
    place = known.get("created") or {}
    where = f" at {place.get('file')}:{place.get('line')}" if place else ""
    given = ", ".join(f"{name}={known[name]}" for name in PARAMETERS if known.get(name) is not None)
    attributes: dict[str, Any] = known.get("attributes") or {}
    settings = ", ".join(f"{name}={value}" for name, value in attributes.items())
    kind = "iterable" if known.get("iterable") else "map-style"
    return [
        Line(at, INFO, "data", f"{rank} {FLOW} DataLoader created: loader {number}, {known.get('type')}{where}"),
        Line(at, INFO, "data", f"{rank} {FLOW} - {given}"),
        Line(at, INFO, "data", f"{rank} {FLOW} - mode: {_mode(known)}"),
        Line(at, INFO, "data", f"{rank} {DATASET} loader {number}: {known.get('dataset')} ({kind})"),
        Line(at, INFO, "data", f"{rank} {DATASET} - attributes: {settings or 'none that can be read'}"),
        Line(at, INFO, "data", f"{rank} {DATASET} - cache: {_matching(CACHE, attributes)}"),
        Line(at, INFO, "data", f"{rank} {DATASET} - buckets: {_matching(BUCKET, attributes)}"),
    ]


def lengths(rank: str, at: float, loader: KnownLoader, dataset: int | None) -> list[Line]:
    lines = [Line(at, INFO, "data", f"{rank} {FLOW} - DataLoader length: {loader.length} (loader {loader.number})")]
    if dataset is not None:
        text = f"{rank} {DATASET} - dataset length: {dataset} (loader {loader.number})"
        lines.append(Line(at, INFO, "data", text))
    if loader.length == 0:
        text = f"{rank} ⚠️ {FLOW.removeprefix('🔍 ')} loader {loader.number} has no batch at all"
        lines.append(Line(at, WARNING, "data", text, key=True))
    return lines


def assigned(
    whose: str, at: float, text: str, loader: KnownLoader, dataset: int | None, worker: int, workers: int
) -> list[Line]:
    """What a worker will read, as far as it can be known before it is read."""
    known = _decoded(text)
    if str(known.get("dataset_inner")).startswith(TOLD_APART):
        return []
    listed = [
        f"{name} {found[1]}"
        for name, value in (known.get("attributes") or {}).items()
        if FILES.search(name) and (found := LISTED.fullmatch(str(value)))
    ]
    files = f"files listed: {', '.join(listed)}" if listed else "files: none are listed in the dataset's attributes"
    share = "?" if known.get("iterable") else _share(known, loader.length, dataset, worker, workers)
    total = "?" if dataset is None else f"{dataset}"
    said = f"{whose} Processing {share}/{total} samples from {known.get('dataset_inner')}, {files}"
    return [Line(at, DEBUG, "data", said)]


def _share(known: dict[str, Any], batches: int | None, dataset: int | None, worker: int, workers: int) -> str:
    """torch assigns batches in turn: worker w of W gets w, w + W, w + 2 W …"""
    size = known.get("batch_size")
    if not isinstance(size, int) or batches is None:
        return "?"
    mine = len(range(worker, batches, workers))
    samples = mine * size
    is_last = mine and (batches - 1) % workers == worker
    if is_last and dataset is not None and not known.get("drop_last") and _takes_all(known, batches, size, dataset):
        samples -= batches * size - dataset
    return f"{samples}"


def _takes_all(known: dict[str, Any], batches: int, size: int, dataset: int) -> bool:
    return known.get("batch_sampler") == STANDARD and (batches - 1) * size < dataset <= batches * size


def _mode(known: dict[str, Any]) -> str:
    sampler = known.get("batch_sampler")
    if known.get("batch_size") is None and sampler is None:
        return "buckets or ready-made batches: automatic batching is off (batch_size=None), the dataset gives batches"
    if sampler not in (None, STANDARD):
        return f"batches of its own: {sampler} decides what goes together, as bucketed batching does"
    return "standard"


def _matching(pattern: re.Pattern[str], attributes: dict[str, Any]) -> str:
    found = ", ".join(f"{name}={value}" for name, value in attributes.items() if pattern.search(name))
    return found or "nothing in the dataset's attributes"


def _decoded(text: str) -> dict[str, Any]:
    try:
        known = json.loads(text)
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


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
        known = self._tail.facts(one.a)
        if not known:
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
            self._line(at, f"{PREPARE} before prepare{place}: {_prepared_as(before)}"),
            self._line(at, f"{PREPARE} - batch_sampler: {_sampler(before)}"),
            self._line(at, f"{PREPARE} - number of processes: {known.get('processes')}, this is {known.get('index')}"),
            self._line(at, f"{PREPARE} - device: {known.get('device')}, {settings}"),
        ]
        if _is_bucketed(before):
            lines.append(self._line(at, f"{BUCKETS} - batch_indices in all: {_told(_batches(before))}"))
        if _will_fail(known):
            reason = "batch_size=None leaves nothing to split, the first batch will raise"
            text = f"{MISSING} batch_sampler is None{place}: {reason}"
            lines.append(Line(at, ERROR, "distributed", f"{self.name} {text}", key=True))
        return lines

    def _after(self, at: float, known: dict[str, Any], number: int) -> list[Line]:
        after = known["after"]
        loader = f", loader {number}" if number else ""
        shards = "".join(f", inside of {one}" for one in reversed(after.get("shards") or ()))
        return [
            self._line(at, f"{PREPARE} after prepare: {_prepared_as(after)}{loader}"),
            self._line(at, f"{PREPARE} - batch_sampler: {_sampler(after)}{shards}"),
        ]

    def _line(self, at: float, text: str) -> Line:
        return Line(at, INFO, "distributed", f"{self.name} {text}")


def _prepared_as(loading: dict[str, Any]) -> str:
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
    """Not torch makes the batches, but a sampler of the user's, or the dataset itself."""
    return not before.get("iterable") and before.get("batch_sampler") != STANDARD


def _batches(before: dict[str, Any]) -> object:
    return before.get("dataset_length") if before.get("batch_sampler") is None else before.get("batches")


def _will_fail(known: dict[str, Any]) -> bool:
    """On several processes, unless the first one loads for all: see the rule accelerate-batch-sampler-none."""
    before = known.get("before") or {}
    unbatched = before.get("batch_sampler") is None and before.get("batch_size") is None
    return (
        unbatched
        and not before.get("iterable")
        and (known.get("processes") or 1) > 1
        and not known.get("dispatch_batches")
    )


class Wait(NamedTuple):
    """A span that goes on, and was told."""

    key: int
    since: int


class Distributed:
    """One rank's lines."""

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._waits: set[Wait] = set()
        self._passed: set[int] = set()

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.GROUP: self._group, Kind.WRAPPED: self._wrapped, Kind.SPAN: self._span}

    def waits(self, board: list[Entry], now: float, *, final: bool) -> list[Line]:
        """Spans that go on. At the end of the process, however short they have been."""
        lines = []
        for one in board:
            at = self._tail.seconds(one.since) + LONG_WAIT
            if one.kind == Kind.SPAN and one.a and (at <= now or final):
                lines += self._waiting(one.key, one.since, min(at, now))
        return lines

    def _waiting(self, key: int, since: int, at: float) -> list[Line]:
        name, place = self._named(key)
        if Wait(key, since) in self._waits:
            return []
        self._waits.add(Wait(key, since))
        if name in BLOCKS:
            return [self._line(at, "🔍", f"{name}{place}: entered", INFO)]
        return [self._line(at, "🔄", f"{name}{place}: waiting ...", INFO)]

    def _span(self, one: Record) -> list[Line]:
        name, place = self._named(one.key)
        at, took = self._tail.seconds(one.end), duration(one.duration / 1e9)
        long = one.duration / 1e9 >= LONG_WAIT
        lines = self._waiting(one.key, one.start, self._tail.seconds(one.start) + LONG_WAIT) if long else []
        told = Wait(one.key, one.start) in self._waits
        self._waits.discard(Wait(one.key, one.start))
        if one.a:
            return [*lines, self._line(at, "❌", f"{name}{place}: failed after {took}", ERROR)]
        word = "left" if name in BLOCKS else "passed"
        if told or self._is_first(one.key):
            lines.append(self._line(at, "✅", f"{name}{place}: {word} after {took}", INFO if told else DEBUG))
        return lines

    def _is_first(self, key: int) -> bool:
        if key in self._passed or len(self._passed) >= PASSED:
            return False
        self._passed.add(key)
        return True

    def _group(self, one: Record) -> list[Line]:
        known = self._tail.facts(one.a)
        where = _place(known.get("where"))
        address = f", {known['address']}" if known.get("address") else ""
        if one.b == 0:
            text = f"process group{where}: waiting for all ranks{address}"
            return [self._line(self._tail.seconds(one.start), "🔄", text, INFO)]
        at, took = self._tail.seconds(one.end), duration(one.duration / 1e9)
        if one.b == NOT_MADE:
            return [self._line(at, "❌", f"process group{where}: could not be made, after {took}{address}", ERROR)]
        limit = f", timeout {duration(known['timeout'])}" if known.get("timeout") else ""
        text = f"process group{where}: {known.get('backend')}, rank {known.get('rank')} of {known.get('world')}"
        lines = [self._line(at, "✅", f"{text}{address}{limit}, made in {took}", INFO)]
        variables = ", ".join(f"{name}={value}" for name, value in (known.get("variables") or {}).items())
        return [*lines, self._line(at, "🔍", f"set in the environment: {variables}", INFO)] if variables else lines

    def _wrapped(self, one: Record) -> list[Line]:
        known = self._tail.facts(one.a)
        options = [name for name in ("find_unused_parameters", "static_graph") if known.get(name)]
        text = f"{known.get('kind')}{_place(known.get('where'))}: {known.get('parameters')} parameters with a gradient"
        more = "".join(f", {name}=True" for name in options)
        return [self._line(self._tail.seconds(one.end), "🔍", text + more, INFO)]

    def _line(self, at: float, sign: str, text: str, level: str) -> Line:
        rank = self._tail.header[f.H_RANK]
        whose = f" rank {rank - 1} -" if rank else ""
        return Line(at, level, "distributed", f"{self.name} {sign} {MARKER}{whose} {text}", key=level == ERROR)

    def _named(self, key: int) -> tuple[str, str]:
        """barrier, and " at train.py:40"."""
        name, *place = self._tail.string(key).split("\n")
        return name, f" at {place[0].rpartition('/')[2]}:{place[1]}" if len(place) >= 2 else ""


def _place(known: dict[str, Any] | None) -> str:
    return f" at {str(known.get('file')).rpartition('/')[2]}:{known.get('line')}" if known else ""
