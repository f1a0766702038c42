"""The process that speaks to Ray for a check: tasks come on a pipe, what was seen of their files goes back.

It is one of its own because Ray prints where it likes, sets signal handlers, cannot be interrupted while it connects,
and may end the process it runs in when the cluster goes away.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

from ...errors import UserError
from ..notes import Wish
from ..workers import ROOT, Task
from . import AGAIN, GRACE, JOINING, PORT, Answer, ClusterSize, NumberedTask, Refusal, encode, numbered_task_in
from .dispatch import Dispatch, first_line, size_of, submitting

SHORT = 10.0  # seconds in which a machine that is there takes a connection
STORE = 100 << 20  # bytes; what comes back of a file is small, and Ray wants 75 MiB at least
NONE_RUNS = "Could not find any running Ray instance"
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def main() -> None:
    """Arguments: the pipe, the folder for what Ray writes, where the cluster is, seconds of patience."""
    pipe, folder, where, patience = sys.argv[1:]
    channel = Connection(int(pipe))
    tasks: SimpleQueue[NumberedTask | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, tasks, folder), daemon=True).start()
    try:
        _serve(channel, tasks, folder, where, float(patience))
        shutil.rmtree(folder, ignore_errors=True)  # whoever sent us may have been killed
    except UserError as error:
        _say(channel, Refusal(error.what, error.remedy))


def _listen(channel: Connection, tasks: SimpleQueue[NumberedTask | None], folder: str) -> None:
    """Until whoever sent us is gone, or has enough. Always listening: nobody may wait for us to take a task."""
    with suppress(EOFError, OSError):
        while True:
            tasks.put(numbered_task_in(channel.recv_bytes()))
    tasks.put(None)
    time.sleep(GRACE)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _say(channel: Connection, answer: Answer) -> None:
    with suppress(ConnectionError):  # nobody listens any more, which `_listen` has noticed too
        channel.send_bytes(encode(answer))


def _give_up(channel: Connection) -> None:
    """Ray cannot be interrupted while it connects."""
    what = f"Ray has not joined the cluster within {JOINING:.0f} s"
    _say(channel, Refusal(what, "look at the cluster with `ray status`; `ray stop` forgets one that has crashed"))
    os._exit(1)


def _serve(
    channel: Connection, tasks: SimpleQueue[NumberedTask | None], folder: str, where: str, patience: float
) -> None:
    limit = threading.Timer(JOINING, _give_up, (channel,))
    limit.start()
    try:
        ray, here = _join(where, folder)
    finally:
        limit.cancel()
    try:
        submit = submitting(ray, ROOT if here else "")
        size = _first(ray, submit, patience)
        _say(channel, size)
        dispatch = Dispatch(ray, size, submit, lambda answer: _say(channel, answer))
        _work(dispatch, tasks)
    except ConnectionError as error:
        raise UserError(f"Ray lost its cluster: {first_line(error)}", AGAIN) from error
    finally:
        with suppress(Exception):
            ray.shutdown()


def _work(dispatch: Dispatch, tasks: SimpleQueue[NumberedTask | None]) -> None:
    try:
        while True:
            while not dispatch.busy or not tasks.empty():
                task = tasks.get()
                if task is None:
                    return
                dispatch.take(task)
            dispatch.turn()
    finally:
        dispatch.cancel()


def _first(ray: Any, submit: Callable[[bytes], Any], patience: float) -> ClusterSize:
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
        raise UserError(f"a node of the Ray cluster cannot run unstuck: {first_line(cause)}", remedy) from error
    return size


def _join(where: str, folder: str) -> tuple[Any, bool]:
    """Ray, connected, and whether its nodes are this machine with this Python. Raises UserError."""
    import ray

    named = os.environ.get("RAY_ADDRESS", "auto")
    where = named if where in ("any", "auto") and named not in ("", "auto") else where
    if where == "local":
        return _start(ray, folder)
    if ":" in where:
        _reach(where)
    try:
        ray.init("auto" if where == "any" else where, runtime_env={"py_modules": _shipped()}, **QUIET)
    except Exception as error:
        if where == "any" and NONE_RUNS in str(error):
            return _start(ray, folder)
        raise _refusal(where, error) from error
    return ray, False


def _start(ray: Any, folder: str) -> tuple[Any, bool]:
    """A cluster of this machine alone, which ends with us. All it writes is in our folder, and no token at home."""
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    options: dict[str, Any] = {
        "num_cpus": len(os.sched_getaffinity(0)),
        "object_store_memory": STORE,
        "_temp_dir": folder,
    }
    try:
        ray.init("local", include_dashboard=False, **options, **QUIET)
    except Exception as error:
        raise UserError(
            f"Ray does not start here: {first_line(error)}", "leave --on out: one machine needs no Ray"
        ) from error
    return ray, True


def _shipped() -> list[str]:
    """What nodes may not have: this package, and msgspec, which needs nothing else."""
    import msgspec

    return [str(Path(__file__).parents[2]), str(Path(msgspec.__file__).parent)]


def _reach(where: str) -> None:
    """Where nobody is, Ray's client takes 30 s to say so, and the rest of Ray more than 120; neither says why."""
    parts = urlsplit(where if "://" in where else f"//{where}")
    try:
        socket.create_connection((parts.hostname or "", parts.port or PORT), timeout=SHORT).close()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        remedy = "look whether it runs; ray://HOST:10001 wants its head node and the port of Ray's client server"
        raise UserError(f"no Ray cluster answers at {where}: {why}", remedy) from error


def _refusal(where: str, error: Exception) -> UserError:
    if isinstance(error, ImportError):
        return UserError(f"Ray's client does not load: {first_line(error)}", "pip install 'ray[client]'")
    if NONE_RUNS in str(error):
        return UserError("no Ray cluster runs on this machine", "give its address, or ray://local to start one")
    known = f"at {where}" if ":" in where else "on this machine"
    return UserError(f"the Ray cluster {known} cannot be joined: {first_line(error)}", "look at it with `ray status`")
