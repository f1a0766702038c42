"""Hugging Face datasets that are read through a list of indices: what that takes, and which line made the list.

`shuffle`, `select`, `filter`, `sort` and `train_test_split` leave the rows where they are and keep a list of their
numbers. Reading a row then is looking up its number, and going there. A slice that would have been one piece of memory
comes in as many pieces as it has rows, which takes even longer to put together: for slices both are counted. What is
asked for by a list of numbers comes in pieces anyway, and only the look-up is counted.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, is_installed, replace, together
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import Recorder
from ..format import Kind
from ..loading.fetches import in_sample
from ..loading.readers import timed_reader
from ..side_work.calls import begin, burst, calls, counted_in_bursts

MODULES = ("datasets.arrow_dataset",)
OWES = (Kind.STAGE, Kind.CALL)

READING = "rows through an indices mapping (datasets)"  # as a stage of a sample, and as a call elsewhere
ROWS, MAPPING = "rows", "indices mapping"  # what kinds of calls they are
FAR = 16  # calls from making the list up to the user's own line
WRAPPER = "wrapper"  # the library's own decorators
CUSTOM = "custom"  # format of a dataset with a transform
DECODED = ("Image", "Audio", "Video", "Pdf", "Nifti")


def install(module: ModuleType, guard: Guard) -> Undo:
    return together(
        replace(module, "query_table", lambda original: _look_up(original, guard)),
        replace(module.Dataset, "_getitem", lambda original: _get(original, guard)),
        replace(module.Dataset, "_new_dataset_with_indices", lambda original: _made(original, guard)),
    )


class Whole(threading.local):
    """This thread reads a slice, which is counted as a whole."""

    read = False


class Settled:
    """The recording at whose end the newest burst of reads is written down."""

    recorder: Recorder | None = None

    def to(self, recorder: Recorder) -> None:
        self.recorder = recorder
        process.remembered.append(burst.ends)


def _counted(original: Any, guard: Guard) -> Any:
    in_a_sample = timed_reader(original, READING, guard)
    elsewhere = counted_in_bursts(original, ROWS, READING, guard)

    def call(recorder: Recorder, *args: Any, **kwargs: Any) -> Any:
        if in_sample(recorder):
            return in_a_sample(*args, **kwargs)
        if settled.recorder is not recorder:
            guard.quietly(settled.to, recorder)
        return elsewhere(*args, **kwargs)

    return call


def _look_up(original: Any, guard: Guard) -> Any:
    counted = _counted(original, guard)

    def query_table(table: Any, key: Any, indices: Any = None) -> Any:
        recorder = process.recorder
        try:
            if indices is None or recorder is None or whole.read:
                return original(table, key, indices)
            return counted(recorder, table, key, indices)
        except Exception as error:
            clean(error)
            raise

    return query_table


def _get(original: Any, guard: Guard) -> Any:
    counted = _counted(original, guard)

    def _getitem(self: Any, key: Any, **kwargs: Any) -> Any:
        recorder = process.recorder
        try:
            if recorder is None or type(key) not in (slice, range) or whole.read or not guard.result(_is_plain, self):
                return original(self, key, **kwargs)
            whole.read = True
            try:
                return counted(recorder, self, key, **kwargs)
            finally:
                whole.read = False
        except Exception as error:
            clean(error)
            raise

    return _getitem


def _is_plain(dataset: Any) -> bool:
    """It is read through a list, and nothing but its rows costs time: no decoding, no function of the user's."""
    own = attributes_of(dataset)
    if own.get("_indices") is None or own.get("_format_type") == CUSTOM:
        return False
    features = attributes_of(own.get("_info")).get("features") or {}
    return not any(type(one).__name__ in DECODED for one in dict.values(features))


def _made(original: Any, guard: Guard) -> Any:
    def _new_dataset_with_indices(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun = guard.result(_begin, sys._getframe(1))
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        finally:  # also after Ctrl-C
            if begun is not None:
                calls.open.discard(begun)
                guard.quietly(begun.ends)

    return _new_dataset_with_indices


def _begin(frame: FrameType | None) -> Any:
    """The method of the library's that the user has called gives it its name."""
    name, inner = "", frame
    for _ in range(FAR):
        if inner is None or not is_installed(inner.f_code.co_filename):
            break
        name = name if inner.f_code.co_name == WRAPPER else inner.f_code.co_name
        inner = inner.f_back
    return begin(MAPPING, name, frame)


whole = Whole()
settled = Settled()
