"""Exit statuses of children, taken where they can be had before the parent's own code reaps them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from .. import format as f
from ..core.objects import ByIdentity
from ..core.process import process
from ..core.recorder import clock

PATIENCE = 0.02  # at a ConnectionResetError the dying worker's status is not there yet

_iterators: ByIdentity[None] = ByIdentity()
_peeked: set[int] = set()


def has_workers(iterator: Any) -> None:
    """Look at this iterator's workers when something fails, for as long as it lives."""
    _iterators.set(iterator, None)


def note(pid: int, status: int, how: int) -> None:
    """Record how a child ended: an exit code, or a signal as a negative number."""
    if how == f.EXIT_REAPED:
        _peeked.discard(pid)  # the number may be given away from now on
    elif pid in _peeked:
        return
    else:
        _peeked.add(pid)
    recorder = process.recording()
    if recorder is not None:
        recorder.note(f.Kind.EXIT, 0, clock(), 0, pid, status, how)


def note_dead_workers(patience: float = PATIENCE) -> None:
    """Look, without reaping, whether workers have died. For use while an exception is already on its way out.

    torch's SIGCHLD handler may raise in here; its error says no more than the statuses do and is dropped.
    """
    until = clock() + int(patience * 1e9)
    while len(_iterators):
        try:
            if _any_died() or clock() > until:
                return
            time.sleep(0.002)
        except RuntimeError as error:
            if not _from_torch_handler(error):
                raise


def _any_died() -> bool:
    workers = [worker for iterator in _iterators.owners() for worker in list(getattr(iterator, "_workers", ()))]
    return sum([_peek(worker) for worker in workers]) > 0


def _peek(worker: Any) -> bool:
    """True if this worker has ended with anything but a normal exit."""
    known = getattr(getattr(worker, "_popen", None), "returncode", None)
    if known is not None:
        note(worker.pid, known, f.EXIT_PEEKED)
        return bool(known)
    try:
        result = os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except OSError:
        return False
    if result is None:
        return False
    status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
    note(worker.pid, status, f.EXIT_PEEKED)
    return status != 0


def _from_torch_handler(error: RuntimeError) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    handling = sys.modules.get("torch.utils.data._utils.signal_handling")
    return trace is not None and handling is not None and trace.tb_frame.f_code.co_filename == handling.__file__
