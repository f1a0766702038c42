"""How a loader and its dataset are described in the log: parameters, lengths, what the attributes tell."""

from __future__ import annotations

import json
import re
from typing import Any

from .line import DEBUG, INFO, WARNING, Line

FLOW, DATASET = "🔍 [DATA_FLOW]", "🔍 [DATASET_INIT]"
PARAMETERS = (
    "batch_size", "shuffle", "drop_last", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory",
    "timeout", "in_order", "sampler", "batch_sampler", "collate_fn", "worker_init_fn", "context",
)  # fmt: skip
CACHE = re.compile(r"cache|latent", re.IGNORECASE)
BUCKET = re.compile(r"bucket|resolution|aspect", re.IGNORECASE)
FILES = re.compile(r"file|path|shard|url", re.IGNORECASE)
LISTED = re.compile(r"(?:list|tuple|dict|set) of (\d+)")
# Streams of libraries that say themselves which files a worker has: see shards.py.
TOLD_APART = ("datasets.iterable_dataset.", "webdataset.", "litdata.", "streaming.")
STANDARD = "torch.utils.data.sampler.BatchSampler"


class KnownLoader:
    """What is known of one of them."""

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
        Line(at, INFO, "data", f"{rank} {DATASET} - attributes: {settings or 'none that lie open'}"),
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
    """torch deals batches out in turn: worker w of W gets w, w + W, w + 2 W …"""
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
    return found or "no attribute of the dataset says anything"


def _decoded(text: str) -> dict[str, Any]:
    try:
        known = json.loads(text)
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}
