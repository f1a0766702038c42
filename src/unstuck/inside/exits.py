"""Exit statuses of children, taken where they can be had before the parent's own code reaps them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from . import format as f
from .process import process
from .recorder import clock
from .weak import ByIdentity

PATIENCE = 0.02  # at a ConnectionResetError the dying worker's status is not there yet

iterators: ByIdentity[list[Any]] = ByIdentity()  # living iterators' workers
_noted: set[tuple[int, int]] = set()


def note(pid: int, status: int, how: int) -> None:
    """Record how a child ended: an exit code, or a signal as a negative number."""
    recorder = process.recording()
    if recorder is not None and (pid, how) not in _noted:
        _noted.add((pid, how))
        recorder.event(f.Kind.EXIT, 0, clock(), 0, pid, status, how)


def note_dead_workers(patience: float = PATIENCE) -> None:
    """Look, without reaping, whether workers have died. For use while an exception is already on its way out.

    torch's SIGCHLD handler may raise in here; its error says no more than the statuses do and is dropped.
    """
    until = clock() + int(patience * 1e9)
    while True:
        try:
            while not any([_peek(worker) for workers in iterators.values() for worker in list(workers)]):
                if clock() > until:
                    return
                time.sleep(0.002)
            return
        except RuntimeError as error:
            if not _from_torch_handler(error):
                raise


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
