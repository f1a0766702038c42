"""Shuffle buffers of a stream: how many elements each may hold, and how large one is at that place of the pipeline.

They are taken out, and a look at what passes is put in their place: so nothing has to be filled to be measured. That
is done to the objects themselves, in a process that ends afterwards.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .sizes import sizes_of

LOOKED = 64  # elements that are measured at each
DEEPEST = 20
NAMES = ("_shuffle", "detshuffle")  # of webdataset's stages


class Shuffle:
    """One buffer."""

    def __init__(self, of: str, elements: int, copies: int = 1, source: int | None = None) -> None:
        self.of, self.elements, self.copies, self.source = of, elements, copies, source
        self.held_back = 0  # elements that it holds now: none, it is open
        self.close: Callable[[int], None] = lambda _: None
        self.looked = 0
        self.bytes = 0.0
        self.shape = ""

    def see(self, element: Any, rows: int = 1) -> None:
        if self.looked < LOOKED and rows:
            found = sizes_of(element)
            self.shape = self.shape or found.words()
            self.bytes += found.held
            self.looked += rows

    def passing(self, elements: Any) -> Iterator[Any]:
        for one in elements:
            self.see(one)
            yield one

    def hold(self, most: int) -> None:
        """Shuffle again, with no more than so many elements."""
        self.held_back = min(self.elements, most)
        self.close(self.held_back)

    @property
    def element(self) -> int:
        """Bytes of one; 0: none has passed."""
        return int(self.bytes / self.looked) if self.looked else 0

    def facts(self) -> dict[str, Any]:
        return {
            "of": self.of, "elements": self.elements, "element": self.element or None, "looked": self.looked,
            "copies": self.copies, "source": self.source, "shape": self.shape,
        }  # fmt: skip


def opened(dataset: Any) -> list[Shuffle]:
    """The buffers of this stream, each now open: elements pass as they come."""
    found: list[Shuffle] = []
    _walk(dataset, found, set(), 0)
    return found


def _walk(value: Any, found: list[Shuffle], known: set[int], depth: int) -> None:
    """Through the wrappers of libraries and of the user's own, which hold what they read from as an attribute."""
    if id(value) in known or depth > DEEPEST or isinstance(value, (str, bytes, type, int, float)):
        return
    known.add(id(value))
    if isinstance(getattr(value, "pipeline", None), list):
        _web(value, found)
        for stage in value.pipeline:
            _walk(stage, found, known, depth + 1)
        return
    if type(value).__name__ == "BufferShuffledExamplesIterable":
        found.append(_hugging_face(value))
    elif type(value).__name__ == "ShufflerIterDataPipe":
        found.append(_pipe(value))
    for one in _parts(value):
        _walk(one, found, known, depth + 1)


def _parts(value: Any) -> list[Any]:
    """What it reads from, one or several."""
    own = getattr(value, "__dict__", None)
    held = list(own.values()) if isinstance(own, dict) else []
    listed = [part for one in held if type(one) in (list, tuple) and len(one) <= DEEPEST for part in one]
    return [one for one in (*held, *listed) if _leads_on(one)]


def _leads_on(value: Any) -> bool:
    """Something that can be read through."""
    return hasattr(type(value), "__iter__") and hasattr(value, "__dict__") and not hasattr(value, "untyped_storage")


def _web(pipeline: Any, found: list[Shuffle]) -> None:
    source = _shards(pipeline.pipeline)
    for at, stage in enumerate(pipeline.pipeline):
        function = getattr(stage, "f", None) or stage
        name = getattr(function, "__name__", "") or type(stage).__name__
        if name in NAMES:
            args, named = getattr(stage, "args", ()) or (), getattr(stage, "kw", {}) or {}
            size = getattr(stage, "bufsize", None) or (args[0] if args else named.get("bufsize", 1000))
            if type(size) is int and size > 1:  # webdataset itself says False where shards are not shuffled
                shuffle = Shuffle("webdataset's .shuffle()", size, source=source)
                shuffle.close = partial(_web_closed, pipeline.pipeline, at)
                pipeline.pipeline[at] = shuffle.passing
                found.append(shuffle)


def _web_closed(stages: list[Any], at: int, size: int) -> None:
    stages[at] = sys.modules["webdataset.filters"].shuffle(size, initial=size)


def _shards(stages: list[Any]) -> int | None:
    """Bytes of all shards, where these are files here: no buffer holds more."""
    urls = getattr(stages[0], "urls", None) if stages else None
    if not isinstance(urls, list) or not all(isinstance(one, str) and os.path.isfile(one) for one in urls):
        return None
    return sum(os.path.getsize(one) for one in urls)


def _pipe(pipe: Any) -> Shuffle:
    shuffle = Shuffle("the datapipe's shuffle()", pipe.buffer_size)
    shuffle.close = partial(_pipe_closed, pipe, pipe.datapipe)
    pipe.buffer_size = 1
    pipe.datapipe = _Passing(pipe.datapipe, shuffle.passing)
    return shuffle


def _pipe_closed(pipe: Any, inner: Any, size: int) -> None:
    pipe.buffer_size, pipe.datapipe = size, inner


class _Passing:
    """Stands for the datapipe before a buffer."""

    def __init__(self, inner: Any, passing: Callable[[Any], Iterator[Any]]) -> None:
        self._inner, self._passing = inner, passing

    def __iter__(self) -> Iterator[Any]:
        return self._passing(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)


def _hugging_face(iterable: Any) -> Shuffle:
    """Tables are shuffled into a copy before the first row comes out, single examples are not."""
    tables = bool(getattr(iterable, "iter_arrow", None))
    shuffle = Shuffle("datasets' .shuffle()", iterable.buffer_size, copies=2 if tables else 1)
    kind = type(iterable)
    shuffle.close = partial(_closed_again, iterable, kind.__iter__, kind._iter_arrow)
    _lets_pass(kind)[iterable.buffer_size] = shuffle
    return shuffle


def _closed_again(iterable: Any, examples: Any, tables: Any, size: int) -> None:
    kind = type(iterable)
    iterable.buffer_size, kind.__iter__, kind._iter_arrow = size, examples, tables


def _lets_pass(kind: Any) -> dict[int, Shuffle]:
    """Copies of it are made for every worker and epoch, so it is the class that lets pass. Buffers by their size."""
    if hasattr(kind, "_unstuck_shuffles"):
        known: dict[int, Shuffle] = kind._unstuck_shuffles
        return known
    buffers: dict[int, Shuffle] = {}

    def examples(self: Any) -> Iterator[Any]:
        for one in self.ex_iterable:
            buffers[self.buffer_size].see(one[1] if isinstance(one, tuple) else one)
            yield one

    def tables(self: Any) -> Iterator[Any]:
        for key, table in self.ex_iterable.iter_arrow():
            buffers[self.buffer_size].see(table, rows=len(table))
            yield key, table

    kind._unstuck_shuffles, kind.__iter__, kind._iter_arrow = buffers, examples, tables
    return buffers
