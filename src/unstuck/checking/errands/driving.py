"""The process that speaks to Ray for a check: errands come on a pipe, what was seen of their files goes back.

It is one of its own because Ray prints where it likes, sets signal handlers, cannot be interrupted while it connects,
and may end the process it runs in when the cluster goes away.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from ...errors import UserError
from ..notes import Wish
from ..workers import ROOT, Task
from .dispatching import Dispatch
from .driver import AGAIN, GRACE, JOINING
from .joining import join, line, size_of
from .words import Errand, Joined, Refused, Said, encode, errand_in


def main() -> None:
    """Arguments: the pipe, the folder for what Ray writes, where the cluster is, seconds of patience."""
    pipe, folder, where, patience = sys.argv[1:]
    channel = Connection(int(pipe))
    errands: SimpleQueue[Errand | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, errands, folder), daemon=True).start()
    try:
        _serve(channel, errands, folder, where, float(patience))
        shutil.rmtree(folder, ignore_errors=True)  # whoever sent us may have been killed
    except UserError as error:
        _say(channel, Refused(error.what, error.remedy))


def _listen(channel: Connection, errands: SimpleQueue[Errand | None], folder: str) -> None:
    """Until whoever sent us is gone, or has enough. Always listening: nobody may wait for us to take an errand."""
    with suppress(EOFError, OSError):
        while True:
            errands.put(errand_in(channel.recv_bytes()))
    errands.put(None)
    time.sleep(GRACE)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _say(channel: Connection, said: Said) -> None:
    with suppress(ConnectionError):  # nobody listens any more, which `_listen` has noticed too
        channel.send_bytes(encode(said))


def _give_up(channel: Connection) -> None:
    """Ray cannot be interrupted while it connects."""
    what = f"Ray has not joined the cluster within {JOINING:.0f} s"
    _say(channel, Refused(what, "look at the cluster with `ray status`; `ray stop` forgets one that has crashed"))
    os._exit(1)


def _serve(channel: Connection, errands: SimpleQueue[Errand | None], folder: str, where: str, patience: float) -> None:
    limit = threading.Timer(JOINING, _give_up, (channel,))
    limit.start()
    try:
        ray, here = join(where, folder)
    finally:
        limit.cancel()
    try:
        submit = _submit(ray, ROOT if here else "")
        size = _first(ray, submit, patience)
        _say(channel, size)
        dispatch = Dispatch(ray, size, submit, lambda said: _say(channel, said))
        _work(dispatch, errands)
    except ConnectionError as error:
        raise UserError(f"Ray lost its cluster: {line(error)}", AGAIN) from error
    finally:
        with suppress(Exception):
            ray.shutdown()


def _work(dispatch: Dispatch, errands: SimpleQueue[Errand | None]) -> None:
    try:
        while True:
            while not dispatch.busy or not errands.empty():
                errand = errands.get()
                if errand is None:
                    return
                dispatch.take(errand)
            dispatch.turn()
    finally:
        dispatch.cancel()


def _submit(ray: Any, root: str) -> Callable[[bytes], Any]:
    """Ray sends this function itself: a node that cannot import unstuck can at least say so."""

    def read_on_node(body: bytes) -> bytes:
        import sys

        if root and root not in sys.path:
            sys.path.append(root)
        from unstuck.checking.errands.on_node import work

        return work(body)

    # Files are spread for their storage's sake. What is lost is sent again by us, who know which files it was.
    task = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")(read_on_node)
    submit: Callable[[bytes], Any] = task.remote
    return submit


def _first(ray: Any, submit: Callable[[bytes], Any], patience: float) -> Joined:
    """Has a task without files done, so that whatever keeps the cluster from working is known now."""
    ref, size = submit(encode(Task([], Wish()))), size_of(ray)
    ready, _ = ray.wait([ref], timeout=patience)
    if not ready:
        free = int(ray.available_resources().get("CPU", 0))
        what = "but did not run a task" if free else "and none was free"
        remedy = "look at `ray status`: wait until others are through, or add nodes"
        raise UserError(f"the Ray cluster has {size.cpus} CPUs {what} for {patience:.0f} s", remedy)
    try:
        ray.get(ref)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        remedy = "give the cluster's nodes the Python and platform of this machine, or install unstuck on them"
        raise UserError(f"a node of the Ray cluster cannot run unstuck: {line(cause)}", remedy) from error
    return size
