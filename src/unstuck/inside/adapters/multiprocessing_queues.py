"""The feeder thread of a worker's result queue: time and size of each hand-over, and the batches it had to drop."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace, together
from ..core.process import process
from ..core.recorder import clock
from ..failures import exceptions
from ..format import H_ROLE, ROLE_WORKER, Kind
from ..loading.pickling import culprits_of_batch

MODULES = ("multiprocessing.queues",)
OWES = (Kind.HANDOVER,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return together(
        replace(module._ForkingPickler, "dumps", lambda original: _dumps(original, guard)),
        replace(module.Queue, "_on_queue_feeder_error", lambda original: _dropped(original, guard)),
    )


def _dumps(original: Any, guard: Guard) -> Any:
    def dumps(cls: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = process.recorder
        if recorder is None or recorder.words[H_ROLE] != ROLE_WORKER:
            return original(cls, *args, **kwargs)
        start = clock()
        try:
            data = original(cls, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        try:
            now = clock()
            recorder.total(recorder.total_slot(Kind.HANDOVER), now - start)
            recorder.event(Kind.HANDOVER, 0, start, now - start, len(data))
            recorder.cost(clock() - now)
        except Exception as error:
            if guard.theirs(error):
                raise
        return data

    return dumps


def _dropped(original: Any, guard: Guard) -> Any:
    """A batch that cannot be sent is dropped with a traceback, and the main process waits for it for ever."""

    def _on_queue_feeder_error(error: Exception, obj: Any) -> None:
        try:
            if process.recorder is not None:
                exceptions.keep(error, "feeder", **_about(error, obj))
        except Exception as ours:
            if guard.theirs(ours):
                raise
        original(error, obj)

    return _on_queue_feeder_error


def _about(error: Exception, sent: Any) -> dict[str, Any]:
    """A worker sends its batch's number with it, one of torchdata's nodes its item's, behind it.

    What another queue of the user's was to carry is neither.
    """
    if type(sent) is not tuple or len(sent) != 2:
        return {}
    if type(sent[0]) is int:
        return {"batch": sent[0], **culprits_of_batch(sent[1], error)}
    return {"index": sent[1], **culprits_of_batch(sent[0], error)} if type(sent[1]) is int else {}
