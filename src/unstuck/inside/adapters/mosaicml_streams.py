"""MosaicML Streaming: the shards that each rank and worker goes through, and those that could not be had."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, around, replace, together
from ..core.objects import ByIdentity, attributes_of
from ..core.process import process
from ..format import H_WORKERS, Kind
from ..sources.shards import Part, part_of

MODULES = ("streaming.base.dataset",)
OWES = (Kind.SHARDS,)

MANY = 100_000  # samples of one worker: a few milliseconds


def install(module: ModuleType, guard: Guard) -> Undo:
    owner = module.StreamingDataset
    return together(
        replace(owner, "_get_work", lambda original: after(original, guard, _shared_out)),
        replace(owner, "prepare_shard", lambda original: around(original, guard, _opens, fail=_fails)),
    )


def _shared_out(_frame: FrameType, args: Any, _kwargs: Any, samples: Any) -> None:
    """The samples of an epoch are: asked once for each, by every worker."""
    recorder, dataset = process.recorder, args[0]
    if recorder is None:
        return
    own = attributes_of(dataset)
    shards, streams, world = own.get("shards"), own.get("streams"), attributes_of(own.get("_unique_worker_world"))
    first = attributes_of(streams[0]) if type(streams) is list and streams else {}
    part = part_of(
        "streaming",
        name=str(first.get("remote") or first.get("local") or ""),
        total=len(shards) if shards is not None else None,
        mine=_distinct(own.get("sample_offset_per_shard"), samples),
        ranks=world.get("num_ranks"),
        workers=recorder.words[H_WORKERS],
        splitter="streaming",
        steps=["files", *(["shuffle"] if own.get("shuffle") else [])],
    )
    if part is None:
        return
    part.begins()
    _parts.set(dataset, part)
    if not len(samples):
        part.ends(0)


def _distinct(offsets: Any, samples: Any) -> int | None:
    """How many shards these samples lie in. None: there are too many to count in passing."""
    if not len(samples) or offsets is None or len(samples) > MANY:
        return None if len(samples) else 0
    return len(set(offsets.searchsorted(samples[samples >= 0], side="right").tolist()))  # -1 fills up the last batch


def _opens(_frame: FrameType, args: Any, kwargs: Any) -> Part | None:
    """Threads of the library ask for the shards to come, unless they are there already; mostly for the same again."""
    dataset, shard_id = args[0], args[1] if len(args) > 1 else kwargs["shard_id"]
    part = _parts.get(dataset)
    if part is None or part.recorder is not process.recorder:
        return None
    name = f"shard {shard_id}"
    shards = attributes_of(dataset).get("shards")
    if shards is not None and shard_id < len(shards):
        name = str(getattr(attributes_of(shards[shard_id]).get("raw_data"), "basename", name))
    if name != part.path:
        part.opens(name)
    return part


def _fails(part: Part, error: Exception) -> None:
    part.fails(error, "open")


_parts: ByIdentity[Part] = ByIdentity()
