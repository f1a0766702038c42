"""What a stream holds back when its first batch comes out: samples that were read and wait to be shuffled.

A generator's variables, and what its loops go through, lie open while it is suspended: nothing of the user's is run.
"""

from __future__ import annotations

import gc
import json
from collections import deque
from types import FrameType, GeneratorType
from typing import Any

from ..core.frames import variables
from ..core.objects import attributes_of, is_path
from ..core.recorder import Recorder, clock
from ..format import Kind

PASSES = 8  # that are looked at
LEAST = 64  # samples: fewer are a batch in the making
MANY = 200  # objects that are gone through
SIZES = ("buffer_size", "bufsize", "buffersize")  # as HF datasets, torch's datapipes and webdataset call it
RANDOM = frozenset(("random", "randint", "randrange", "randperm", "shuffle", "choice", "permutation", "integers"))
PLAIN = ("map", "filter", "enumerate", "islice", "chain", "zip")
LIBRARIES = ("datasets.", "torch.utils.data.", "torchdata.", "webdataset")

Lists = frozenset[tuple[int, int]]  # identity and length


def begins(fetcher: Any) -> Lists:
    """What the dataset has at the beginning of a pass is no buffer, unless it grows."""
    own = attributes_of(attributes_of(fetcher).get("dataset"))
    return frozenset((id(value), len(value)) for value in own.values() if type(value) in (list, deque))


def note(recorder: Recorder, loader: int, fetcher: Any, number: int, before: Lists) -> None:
    """Once a pass, when its first batch is there."""
    begun = clock()
    stream = attributes_of(fetcher).get("dataset_iter")
    found = largest(stream, before) if stream is not None else None
    if found is not None:
        recorder.note(Kind.HELD, loader, begun, 0, number, recorder.intern(json.dumps(found, ensure_ascii=False)))
    recorder.cost(clock() - begun)


def largest(stream: Any, before: Lists) -> dict[str, Any] | None:
    """The largest buffer behind an iterator: its name, how many samples it has, how many it may have, who shuffles."""
    found = []
    for owner in _behind(stream):
        for name, value in _variables(owner):
            if type(value) in (list, deque) and (id(value), len(value)) not in before and _has_samples(value):
                found.append({"name": name, "held": len(value), **_about(owner)})
    return max(found, key=lambda one: (one["shuffles"], one["held"]), default=None)


def _behind(stream: Any) -> list[Any]:
    """The iterator, those it goes through, and the objects of a library that hold one."""
    waiting, found = [stream], []
    known: set[int] = set()
    while waiting and len(known) < MANY:
        one = waiting.pop(0)
        if id(one) not in known:
            known.add(id(one))
            found.append(one)
            inside = [*gc.get_referents(one), *attributes_of(one).values()]
            waiting += [other for other in inside[:MANY] if _leads_on(other)]
    return found


def _leads_on(value: Any) -> bool:
    kind = type(value)
    own = kind.__module__.startswith(LIBRARIES) and kind is not type
    return kind is GeneratorType or kind.__name__ in PLAIN or own


def _frame(owner: Any) -> FrameType | None:
    return owner.gi_frame if type(owner) is GeneratorType else None


def _variables(owner: Any) -> list[tuple[str, Any]]:
    frame = _frame(owner)
    own = attributes_of(owner) if frame is None else variables(frame)
    held = attributes_of(own.get("self")) if frame is not None else {}
    return [*own.items(), *((f"self.{name}", value) for name, value in held.items())]


def _about(owner: Any) -> dict[str, Any]:
    """Who holds it, the most that it may hold, as far as it is told, and whether chance has to do with it."""
    frame = _frame(owner)
    holder = owner if frame is None else variables(frame).get("self")
    own = attributes_of(holder)
    size = next((own[name] for name in SIZES if type(own.get(name)) is int), None)
    kind = "" if holder is None else type(holder).__name__
    names = () if frame is None else frame.f_code.co_names
    return {"of": kind, "size": size, "shuffles": "Shuffl" in kind or not RANDOM.isdisjoint(names)}


def _has_samples(value: Any) -> bool:
    return len(value) >= LEAST and _is_sample(value[0]) and _is_sample(value[-1])


def _is_sample(value: Any) -> bool:
    """Neither a number nor a path: lists of those are what is still to be read, not what was."""
    if type(value) in (int, float, bool, type(None)) or type(value).__module__.startswith("pathlib"):
        return False
    return not (type(value) is str and is_path(value))
