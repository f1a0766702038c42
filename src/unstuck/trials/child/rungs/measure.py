"""Measure one setting after the other, as they are asked for: torch and the user's modules are imported only once.

A question is a file `ask-N.json` beside the request, its answer `answer-N.json`; both appear whole. `answer-0.json`
says what can be asked. Without workers the loader runs the user's code in the process that has it, which changes what
workers forked from it find (caches that are filled, threads that are gone): that is done in a process apart.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..loaders import rebuilt
from ..request import private
from ..stand_ins import Endless, endless
from ..target import opened
from ..timing import Timed

if TYPE_CHECKING:
    from ..request import Facts

EVERY = 0.01  # seconds between two looks for a question
PR_SET_PDEATHSIG = 1
LONELY = 60.0  # seconds without a question, after which nobody is there to ask
MOST_PICKLED = 1 << 30  # bytes: it can be pickled, and nobody would want to
AT_LEAST = 0.4  # of the time for a setting that is timed, however long its workers took to start
GLANCE = 0.5  # seconds of reading after which it can be told whether all data can be read before


class Measuring:
    """The user's loader, drawn from without an end."""

    def __init__(self, loader: Any, folder: str) -> None:
        self.loader, self.folder = loader, folder
        self.changes, self.drawn = endless(loader)

    def about(self, seconds: float) -> dict[str, Any]:
        read = self.apart(lambda: self._read_before(seconds))
        return {
            "torch": torch.__version__,
            "orders": hasattr(self.loader, "in_order"),
            "gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0,
            "context": torch.multiprocessing.get_start_method(allow_none=True) or "",
            "pickled": self.apart(lambda: _pickled(self.loader)),
            "whole": bool(read.get("whole")),
        }

    def _read_before(self, seconds: float) -> dict[str, Any]:
        """Read what can be read in that time: whoever is measured first should not be alone in reading a disk."""
        loader = rebuilt(self.loader, **self.changes, num_workers=0)
        length = self._passes()
        began = time.perf_counter()
        for taken, _ in enumerate(loader, 1):
            spent = time.perf_counter() - began
            if length is not None and taken >= length:
                return {"whole": True}
            if spent > seconds or (spent > GLANCE and (length is None or spent / taken * length > seconds)):
                break
        return {"whole": False}

    def _passes(self) -> int | None:
        try:
            return len(self.loader)
        except TypeError:
            return None

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            found = self.apart(lambda: self._timed(asked)) if not asked["workers"] else self._timed(asked)
        except Exception as error:  # noqa: BLE001  (a setting that fails is an answer)
            found = {"failed": _last_line(error), "traceback": traceback.format_exc()}
        return {**found, "took": time.perf_counter() - began}

    def _timed(self, asked: dict[str, Any]) -> dict[str, Any]:
        workers, prefetch, step = asked["workers"], asked["prefetch"], asked["step"]
        more = {"multiprocessing_context": asked["context"]} if asked["context"] else {}
        loader = rebuilt(
            self.loader, **self.changes, num_workers=workers, prefetch_factor=prefetch, in_order=asked["in_order"],
            persistent_workers=False, **more,
        )  # fmt: skip
        began = time.perf_counter()
        timed = Timed(loader, self.drawn, workers, step)
        timed.warm_up(asked["seconds"])
        left = asked["seconds"] - (time.perf_counter() - began)
        found = timed.run(max(left, AT_LEAST * asked["seconds"]))
        found |= timed.memory(prefetch, () if workers else (os.getppid(),))
        timed.end()
        return {**found, "start": timed.start}

    def apart(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """In a process that is forked for it. What it has drawn is not drawn again."""
        place = os.path.join(self.folder, "apart.json")
        pid = os.fork()
        if not pid:
            _in_child(place, work, self.drawn)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            raise RuntimeError(f"the process was killed (signal {-status})" if status < 0 else f"exit code {status}")
        with open(place) as file:
            found: dict[str, Any] = json.load(file)
        if self.drawn is not None:
            self.drawn.skip(found.pop("drawn", 0))
        return found


def _in_child(place: str, work: Callable[[], dict[str, Any]], drawn: Endless | None) -> None:
    before, code = drawn.count if drawn is not None else 0, 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # whoever ends the process that measures ends this one
    try:
        try:
            found = work()
        except Exception as error:  # noqa: BLE001  (as above)
            found = {"failed": _last_line(error), "traceback": traceback.format_exc()}
        found["drawn"] = drawn.count - before if drawn is not None else 0
        with open(place, "w", opener=private) as file:
            json.dump(found, file)
        code = 0
    finally:
        os._exit(code)


def run(request: dict[str, Any], facts: Facts) -> None:
    """`before`: seconds for reading data before anything is measured."""
    measuring = Measuring(opened(request, facts), os.path.dirname(request["facts"]))
    _put(measuring.folder, 0, measuring.about(request["options"].get("before", 3.0)))
    number = 1
    while (asked := _question(measuring.folder, number)) is not None:
        _put(measuring.folder, number, measuring.answer(asked))
        number += 1


def _question(folder: str, number: int) -> dict[str, Any] | None:
    """None: there are no more."""
    until = time.monotonic() + LONELY
    path = os.path.join(folder, f"ask-{number}.json")
    while time.monotonic() < until:
        try:
            with open(path) as file:
                return json.load(file) or None
        except FileNotFoundError:
            time.sleep(EVERY)
    return None


def _put(folder: str, number: int, answer: dict[str, Any]) -> None:
    path = os.path.join(folder, f"answer-{number}.json")
    with open(f"{path}.new", "w", opener=private) as file:
        json.dump(answer, file)
    os.replace(f"{path}.new", path)


def _pickled(loader: Any) -> dict[str, Any]:
    """Whether workers can be spawned at all."""
    began, written = time.perf_counter(), _Counting()
    try:
        pickle.Pickler(written).dump((loader.dataset, loader.collate_fn, loader.worker_init_fn))
    except _TooMuch:
        pass
    except Exception as error:  # noqa: BLE001  (whatever a user's __reduce__ raises)
        return {"failed": _last_line(error)}
    return {"bytes": written.count, "seconds": time.perf_counter() - began}


class _TooMuch(Exception):  # noqa: N818  (it is the end of counting, not an error)
    pass


class _Counting:
    """A file that keeps nothing: a dataset may be larger than the memory that is left."""

    count = 0

    def write(self, data: Any) -> int:
        self.count += len(data)
        if self.count > MOST_PICKLED:
            raise _TooMuch
        return len(data)


def _last_line(error: BaseException) -> str:
    """What a worker's exception says at its end, which torch puts behind the worker's whole traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    if not lines:
        return name
    last = lines[-1].strip()
    return last if last.startswith(name) else f"{name}: {last}"
