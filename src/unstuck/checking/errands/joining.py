"""How a Ray cluster is reached, or started: within a time limit, and with a clear line where it cannot be."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ...errors import UserError
from .words import Joined

PORT = 10001  # of Ray's client server, unless the head was told another
SHORT = 10.0  # seconds in which a machine that is there takes a connection
STORE = 100 << 20  # bytes; what comes back of a file is small, and Ray wants 75 MiB at least
NONE_RUNS = "Could not find any running Ray instance"
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
WAYS = "write ray, ray://auto, ray://local or ray://HOST:10001"


def place(address: str) -> str:
    """`any`, `auto`, `local`, or an address for Ray's client. Raises UserError."""
    if address in ("ray", "ray://"):
        return "any"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port or PORT
    except ValueError:
        host, port = "", PORT
    if not host or parts.scheme != "ray":
        raise UserError(f"--on {address} names no cluster", WAYS)
    if host in ("auto", "local") and parts.port is None:
        return host
    return f"ray://[{host}]:{port}" if ":" in host else f"ray://{host}:{port}"


def join(where: str, folder: str) -> tuple[Any, bool]:
    """Ray, connected, and whether its nodes are this machine with this Python. Raises UserError."""
    import ray

    named = os.environ.get("RAY_ADDRESS", "auto")
    where = named if where in ("any", "auto") and named not in ("", "auto") else where
    if where == "local":
        return _started(ray, folder)
    if ":" in where:
        _reach(where)
    try:
        ray.init("auto" if where == "any" else where, runtime_env={"py_modules": _shipped()}, **QUIET)
    except Exception as error:
        if where == "any" and NONE_RUNS in str(error):
            return _started(ray, folder)
        raise _refusal(where, error) from error
    return ray, False


def _started(ray: Any, folder: str) -> tuple[Any, bool]:
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
            f"Ray does not start here: {line(error)}", "leave --on out: one machine needs no Ray"
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
        return UserError(f"Ray's client does not load: {line(error)}", "pip install 'ray[client]'")
    if NONE_RUNS in str(error):
        return UserError("no Ray cluster runs on this machine", "give its address, or ray://local to start one")
    known = f"at {where}" if ":" in where else "on this machine"
    return UserError(f"the Ray cluster {known} cannot be joined: {line(error)}", "look at it with `ray status`")


def size_of(ray: Any) -> Joined:
    return Joined(int(ray.cluster_resources().get("CPU", 0)), sum(bool(one["Alive"]) for one in ray.nodes()))


def line(error: BaseException) -> str:
    """The first line of what it says: Ray appends pages."""
    words = str(error).strip().splitlines()
    return words[0].strip(" .") if words else type(error).__name__
