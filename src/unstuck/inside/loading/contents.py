"""What a worker tells of its dataset and of what it hands over: a little at the beginning of a pass, then seldom.

Of a batch: how many tensors, how large, views of how much, and what stands for its content; types and shapes.
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Any, NamedTuple
from zlib import crc32

from ..core.frames import variables
from ..core.guard import is_ours
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import Kind
from . import dataset_state

PASSES = 8  # of which states are told, and
DIGESTED = 4  # contents
BATCHES = 8  # of a pass whose content is told
HANDED = 16  # batches that are told in all

MANY = 4096  # leaves of one batch that are looked at
DEEP = 6
FEW = 16  # leaves that go into the digest, and
HEAD = 256  # elements of each

SAMPLES = 64
FIELDS = 8
LENGTH = 160


class WorkerFacts:
    """Of one worker. `due` is the number of batches after which the next is looked at; 0: none is any more."""

    __slots__ = ("before", "digests", "due", "handed", "iterable", "passes", "recorder")

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.passes = self.handed = self.due = 0
        self.iterable = False
        self.before: dict[str, str] = {}
        self.digests: list[int] = []
        process.remembered.append(self.flush)

    def pass_begins(self, dataset: Any, batches: int, *, iterable: bool) -> None:
        self.flush()
        self.passes += 1
        self.iterable = iterable
        self.due = batches + 1 if self.passes <= PASSES else 0
        if self.passes <= PASSES:
            self._note(dataset, 0)

    def looks(self, dataset: Any, data: Any, batches: int) -> None:
        """A batch is made, the one that was to be looked at."""
        begun = clock()
        digested = self.iterable and self.passes <= DIGESTED and len(self.digests) < BATCHES
        if not self.digests and self.due and self.passes <= PASSES and self.before is not NOTHING:
            self._note(dataset, 1)
            self.before = NOTHING
        seen = _contents_of(data, digest=digested)
        if digested:
            self.digests.append(seen.digest)
        if self.handed < HANDED:
            self.handed += 1
            note = (begun, batches - 1, seen.tensors, seen.size, seen.storage)
            self.recorder.note(Kind.HANDED, 0, *note)
        going_on = digested and len(self.digests) < BATCHES
        self.due = batches + 1 if going_on else batches * 2 if self.handed < HANDED else 0
        self.recorder.cost(clock() - begun)

    def flush(self) -> None:
        """The contents are told together, once they are complete or the pass is over."""
        if self.digests:
            digests, self.digests = self.digests, []
            self.recorder.note(Kind.DIGESTS, 0, clock(), 0, self.passes, 0, self._text(digests))

    def _note(self, dataset: Any, after: int) -> None:
        """The state before the first batch; after it, the generators that were drawn from."""
        begun = clock()
        if after:
            now = dataset_state.generators(dataset)
            drawn = {name: state for name, state in now.items() if self.before.get(name) != state}
            told: dict[str, Any] = {"generators": drawn}
        else:
            self.before = dataset_state.generators(dataset)
            told = {"numbers": dataset_state.numbers(dataset), "generators": self.before}
        self.recorder.note(Kind.STATE, 0, begun, 0, self.passes, after, self._text(told))
        self.recorder.cost(clock() - begun)

    def _text(self, told: Any) -> int:
        return self.recorder.intern(json.dumps(told, ensure_ascii=False))


class _Contents(NamedTuple):
    """Of one batch."""

    tensors: int = 0
    size: int = 0
    storage: int = 0
    digest: int = 0


def _contents_of(data: Any, *, digest: bool) -> _Contents:
    """Go through a batch. Only plain containers and what lies open in objects is gone through."""
    torch = sys.modules.get("torch")
    if torch is None:
        return _Contents()
    tensors = size = known = 0
    storages: dict[int, int] = {}
    for number, leaf in enumerate(_leaves(data)):
        if type(leaf) is torch.Tensor and leaf.layout is torch.strided:
            tensors += 1
            size += leaf.nbytes
            storage = leaf.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        if digest and number < FEW:
            known = crc32(_bytes_of(leaf, torch), known)
    return _Contents(tensors, size, sum(storages.values()), known)


def _leaves(data: Any) -> list[Any]:
    found: list[Any] = []
    waiting = [(data, 0)]
    while waiting and len(found) < MANY:
        value, depth = waiting.pop()
        inner = _inside(value) if depth < DEEP else None
        if inner is None:
            found.append(value)
        else:
            waiting += [(one, depth + 1) for one in reversed(inner[:MANY])]
    return found


def _inside(value: Any) -> list[Any] | None:
    """What a container holds. None: it is none."""
    kind = type(value)
    if issubclass(kind, dict):
        return list(dict.values(value))
    if issubclass(kind, list):
        return list(list.__iter__(value))
    if issubclass(kind, tuple):
        return list(tuple.__iter__(value))
    own = attributes_of(value)
    return list(own.values()) if own and kind.__module__ not in ("torch", "numpy") else None


def _bytes_of(leaf: Any, torch: Any) -> bytes:
    try:
        if type(leaf) is torch.Tensor:
            if leaf.device.type != "cpu" or leaf.layout is not torch.strided:
                return str(leaf.shape).encode()
            head = leaf.detach().reshape(-1)[:HEAD].contiguous()
            raw = head.view(torch.uint8).numpy().tobytes() if head.numel() else b""
            return str(tuple(leaf.shape)).encode() + raw
        if type(leaf).__module__ == "numpy" and hasattr(leaf, "ravel"):
            return bytes(leaf.ravel()[:HEAD].tobytes())
    except Exception as error:
        if not is_ours(error):
            raise
        return b"?"
    if type(leaf) in (int, float, bool, str, bytes, type(None)):
        return repr(leaf)[:HEAD].encode("utf-8", "replace")
    return type(leaf).__name__.encode("utf-8", "replace")


def shapes_of_batch(trace: TracebackType | None) -> list[str]:
    """torch's fetcher holds the list of samples in a local of its own."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "fetch" and code.co_filename.endswith("_utils/fetch.py"):
            data = variables(trace.tb_frame).get("data")
            return [_shape(one)[:LENGTH] for one in data[:SAMPLES]] if type(data) is list else []
        trace = trace.tb_next
    return []


def look_of(data: Any) -> dict[str, str]:
    """What a batch looks like, and where its tensors are."""
    return {"shapes": _shape(data)[:LENGTH], "device": _device(data)}


def _device(value: Any, depth: int = 0) -> str:
    """Of the first tensor."""
    if type(value).__module__ == "torch" and hasattr(type(value), "device"):
        return str(value.device)
    inner = list(dict.values(value)) if issubclass(type(value), dict) else value
    found = (_device(one, depth + 1) for one in inner[:FIELDS]) if depth < 3 and type(inner) in (list, tuple) else ()
    return next((one for one in found if one), "")


def _shape(value: Any, depth: int = 0) -> str:
    if type(value).__module__ in ("torch", "numpy") and hasattr(type(value), "shape"):
        kind = str(value.dtype).rpartition(".")[2]
        return f"{kind}[{', '.join(str(one) for one in value.shape)}]"
    if depth < 3 and issubclass(type(value), dict):
        inner = [f"{name}: {_shape(one, depth + 1)}" for name, one in list(dict.items(value))[:FIELDS]]
        return f"{{{', '.join(inner)}}}"
    if depth < 3 and type(value) in (list, tuple):
        if len(value) > FIELDS:
            return f"{type(value).__name__} of {len(value)}"
        inner = [_shape(one, depth + 1) for one in value]
        return f"({', '.join(inner)})" if type(value) is tuple else f"[{', '.join(inner)}]"
    if type(value) in (str, bytes):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


NOTHING: dict[str, str] = {}
