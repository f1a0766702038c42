"""Hugging Face datasets as streams: which of its shards a rank and each of its workers go through."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

from ..core.frames import variables
from ..core.guard import Guard, Undo, after, clean, replace, together
from ..core.objects import ByIdentity, attributes_of
from ..core.process import process
from ..format import H_WORKER, H_WORKERS, Kind
from ..sources.shards import Part, part_of

MODULES = ("datasets.iterable_dataset",)
OWES = (Kind.SHARDS,)

SPLITTER = "split_dataset_by_node"
IN_WORKER = "_iter_pytorch"
READING = ("__iter__", "iter", IN_WORKER)  # who goes through the dataset; its constructor asks as well
GOING_THROUGH = ("__iter__", "_iter_arrow")  # who asks for the list of shards to read them; others share it out
FAR = 40  # calls from reading a shard up to who reads the dataset
DEEP = 32  # steps of a dataset that are looked at
# What each step of a stream is called by who asks for it.
STEPS = {
    "MappedExamplesIterable": "map",
    "FilteredExamplesIterable": "filter",
    "BufferShuffledExamplesIterable": "shuffle",
    "TakeExamplesIterable": "take",
    "SkipExamplesIterable": "skip",
    "RepeatExamplesIterable": "repeat",
    "CyclingMultiSourcesExamplesIterable": "interleave_datasets",
    "RandomlyCyclingMultiSourcesExamplesIterable": "interleave_datasets",
    "VerticallyConcatenatedMultiSourcesExamplesIterable": "concatenate_datasets",
}


def install(module: ModuleType, guard: Guard) -> Undo:
    """Both are plain functions that the library's own generators call: nothing stands between them and who reads."""
    return together(
        replace(module.IterableDataset, "_prepare_ex_iterable_for_iteration", lambda one: after(one, guard, _prepared)),
        replace(module, "_split_gen_kwargs", lambda one: _listed(one, guard)),
    )


def _prepared(frame: FrameType, args: Any, _kwargs: Any, _result: Any) -> None:
    """By who asked for it: in a worker it is shared out among workers, elsewhere one process reads all of it."""
    recorder, dataset, asked = process.recorder, args[0], frame.f_code.co_name
    if recorder is None or asked not in READING:
        return
    if asked != IN_WORKER:
        _begin(dataset, frame, 0, 1)
    elif recorder.words[H_WORKER]:
        _begin(dataset, None, recorder.words[H_WORKER] - 1, recorder.words[H_WORKERS])


def _begin(dataset: Any, frame: FrameType | None, number: int, workers: int) -> None:
    own = attributes_of(dataset)
    shared = attributes_of(own.get("_distributed"))
    of_rank = _count(dataset)
    part = part_of(
        "datasets",
        frame,
        name=str(attributes_of(own.get("_info")).get("dataset_name") or ""),
        total=_count(own.get("_ex_iterable")),
        of_rank=of_rank,
        mine=None if of_rank is None else len(range(number, of_rank, workers)),
        ranks=shared.get("world_size", 1),
        workers=workers,
        splitter=SPLITTER if shared else "",
        **_steps(own.get("_ex_iterable")),
    )
    if part is None:
        return
    part.begins()
    _parts.set(dataset, part)
    if of_rank is not None and number >= of_rank:
        part.ends(0)


def _count(of: Any) -> int | None:
    """As the library counts them: what it raises here it would raise a moment later anyway."""
    try:
        found = getattr(of, "num_shards", None)
        found = getattr(of, "n_shards", None) if found is None else found
    except NotImplementedError:  # of a source of somebody's own, which need not count
        return None
    return found if type(found) is int else None


def _steps(one: Any) -> dict[str, Any]:
    """What is done with the samples on their way, from where they come; and the largest buffer."""
    found: list[str] = []
    buffer = 0
    for _ in range(DEEP):
        own = attributes_of(one)
        name = STEPS.get(type(one).__name__)
        found += [name] if name else []
        buffer = max(buffer, own.get("buffer_size") or 0)
        if "ex_iterable" not in own:
            return {"steps": [*_origin(own), *reversed(found)], "buffer": buffer}
        one = own["ex_iterable"]
    return {"steps": list(reversed(found)), "buffer": buffer}


def _origin(own: dict[str, Any]) -> list[str]:
    """Where the shards come from: a dataset in memory or of Arrow files, a list of files, a generator."""
    made = own.get("generate_tables_fn") or own.get("generate_examples_fn")
    if made is None:
        return []
    if getattr(made, "__name__", "") == "_generate_tables_from_shards":
        return ["to_iterable_dataset"]
    lists = [value for value in (own.get("kwargs") or {}).values() if isinstance(value, list)]
    return ["files"] if any(value and type(value[0]) is str for value in lists) else ["generator"]


def _listed(original: Any, guard: Guard) -> Any:
    def _split_gen_kwargs(*args: Any, **kwargs: Any) -> Any:
        try:
            jobs = original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        frame = sys._getframe(1)
        if frame.f_code.co_name not in GOING_THROUGH or type(jobs) is not list:
            return jobs
        part = guard.result(_part_of, frame)
        return jobs if part is None else Opened(jobs, part, guard)

    return _split_gen_kwargs


def _part_of(frame: FrameType | None) -> Part | None:
    """Of the dataset that is read, further up the stack in the same file."""
    file = frame.f_code.co_filename if frame is not None else ""
    for _ in range(FAR):
        if frame is None:
            return None
        if frame.f_code.co_name in READING and frame.f_code.co_filename == file:
            part = _parts.get(variables(frame).get("self"))
            if part is not None:
                return part if part.recorder is process.recorder else None
        frame = frame.f_back
    return None


class Opened(list[Any]):
    """The list of shards that a stream goes through, which tells of each when its turn comes."""

    __slots__ = ("guard", "part")

    def __init__(self, jobs: list[Any], part: Part, guard: Guard) -> None:
        super().__init__(jobs)
        self.part, self.guard = part, guard

    def __iter__(self) -> Iterator[Any]:
        return OneByOne(list.__iter__(self), self)


class OneByOne:
    """Asked for the next shard, the one before is through."""

    __slots__ = ("jobs", "number", "of")

    def __init__(self, jobs: Iterator[Any], of: Opened) -> None:
        self.jobs, self.of, self.number = jobs, of, 0

    def __iter__(self) -> OneByOne:
        return self

    def __next__(self) -> Any:
        of = self.of
        if self.number:
            of.guard.quietly(_finishes, of.part)
        job = next(self.jobs)
        self.number += 1
        of.guard.quietly(_opens, of.part, job, self.number)
        return job


def _finishes(part: Part) -> None:
    if part.recorder is process.recorder:  # else a child was forked in between
        part.finishes()


def _opens(part: Part, job: Any, number: int) -> None:
    if part.recorder is process.recorder:
        part.opens(_name_of(job) or f"shard {number}")


def _name_of(job: Any) -> str:
    """The file, if it is one."""
    lists = [value for value in job.values() if isinstance(value, list)] if type(job) is dict else []
    return next((value[0] for value in lists if len(value) == 1 and type(value[0]) is str), "")


_parts: ByIdentity[Part] = ByIdentity()
