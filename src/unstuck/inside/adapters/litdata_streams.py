"""LitData: the chunks that each rank and worker goes through. They are cut up by samples, so that nobody has none."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.frames import variables
from ..core.guard import Guard, Undo, after, around, replace, together
from ..core.objects import ByIdentity, attributes_of
from ..core.process import process
from ..format import Kind
from ..sources.shards import Part, part_of

MODULES = ("litdata.streaming.dataset", "litdata.streaming.shuffle")
OWES = (Kind.SHARDS,)

# Asked for the order of the samples of a chunk, when its turn comes.
SHUFFLES = ("NoShuffle", "FullShuffle", "WindowShuffle")


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.__name__.endswith("shuffle"):
        owners = [getattr(module, name) for name in SHUFFLES if hasattr(module, name)]
        return together(*(replace(one, "__call__", lambda original: around(original, guard, _opens)) for one in owners))
    return replace(module.StreamingDataset, "__iter__", lambda original: after(original, guard, _begin))


def _begin(frame: FrameType, args: Any, _kwargs: Any, _iterator: Any) -> None:
    if process.recorder is None:
        return
    dataset = args[0]
    own = attributes_of(dataset)
    ranks, workers = (attributes_of(own.get(name)).get("world_size") for name in ("distributed_env", "worker_env"))
    chunks = own.get("worker_chunks")
    part = part_of(
        "litdata",
        frame if workers == 1 else None,
        name=str(attributes_of(own.get("input_dir")).get("path") or ""),
        total=own.get("_shuffle_num_chunks"),
        mine=len(chunks) if chunks is not None else None,
        ranks=ranks,
        workers=workers,
        splitter="litdata",
        steps=["files", *(["shuffle"] if own.get("shuffle") else [])],
    )
    if part is not None:
        part.begins()
        _parts.set(dataset, part)


def _opens(frame: FrameType, _args: Any, _kwargs: Any) -> None:
    """The dataset asks from inside of its `__next__`, where the one before is through."""
    if process.recorder is None:
        return
    dataset = variables(frame).get("self")
    part = _parts.get(dataset) if frame.f_code.co_name == "__next__" else None
    if part is None or part.recorder is not process.recorder:
        return
    own = attributes_of(dataset)
    number, chunks = own.get("worker_next_chunk_index", 0), own.get("worker_chunks") or ()
    if number:
        part.finishes()
    if number < len(chunks):
        part.opens(_name_of(own.get("cache"), int(chunks[number])))


def _name_of(cache: Any, chunk: int) -> str:
    config = attributes_of(attributes_of(attributes_of(cache).get("_reader")).get("_config"))
    known = config.get("_chunks")
    one = known[chunk] if type(known) is list and chunk < len(known) else {}
    return str(one.get("filename") or f"chunk {chunk}")


_parts: ByIdentity[Part] = ByIdentity()
