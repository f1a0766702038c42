"""`torch.distributed`: the process group, barriers under all their names, and the way to the Flight Recorder.

Other collectives are not wrapped: `torch.compile(fullgraph=True)` would break on them, and those that DDP calls from
C++ would be missing. The Flight Recorder has them all.
"""

from __future__ import annotations

import json
import os
from types import FrameType, ModuleType
from typing import Any

from ..core import ranks
from ..core.frames import user_line
from ..core.guard import Guard, Undo, around, replace_everywhere, together
from ..core.process import process
from ..core.ranks import KEPT_VARIABLES
from ..core.recorder import Recorder, clock
from ..core.stacks import stacks
from ..failures.collectives import flight, spanned, switch_on
from ..format import ROLE_MAIN, Kind
from ..redaction import redacted

MODULES = ("torch.distributed.distributed_c10d",)
OWES = (Kind.GROUP, Kind.SPAN)
MADE, FAILED = 1, 2


def install(module: ModuleType, guard: Guard) -> Undo:
    guard.quietly(switch_on)
    undos = [
        replace_everywhere(module, "init_process_group", lambda original: _init(original, module, guard)),
        replace_everywhere(module, "barrier", lambda original: spanned(original, "barrier", guard)),
        replace_everywhere(module, "monitored_barrier", lambda original: spanned(original, "monitored_barrier", guard)),
    ]
    if vars(module).get("is_initialized", bool)():  # it was made before recording began
        guard.quietly(_made, module, _recorder(), None, 0)
    return together(*undos)


def _recorder() -> Recorder | None:
    return process.recording(ROLE_MAIN)


def _init(original: Any, module: ModuleType, guard: Guard) -> Any:
    def end(begun: tuple[Recorder, dict[str, Any], int]) -> None:
        _made(module, *begun)

    return around(original, guard, _begins, end=end, fail=_failed)


def _begins(frame: FrameType, args: Any, kwargs: Any) -> tuple[Recorder, dict[str, Any], int] | None:
    recorder = _recorder()
    if recorder is None:
        return None
    given = dict(zip(("backend", "init_method", "timeout", "world_size", "rank"), args, strict=False)) | kwargs
    rank, world = _or_variable(given.get("rank"), "RANK"), _or_variable(given.get("world_size"), "WORLD_SIZE")
    facts = {
        "where": user_line(frame),
        "backend": _plain(given.get("backend")),
        "address": _address(given),
        "rank": rank,
        "world": world,
    }
    # What it is told to be, it is also while it waits for the others, and if they never come.
    ranks.known.rank = ranks.known.rank if rank is None else rank
    ranks.known.world = ranks.known.world if world is None else world
    ranks.write_rank(recorder)
    start = clock()
    recorder.note(Kind.GROUP, 0, start, 0, recorder.intern(json.dumps(facts, ensure_ascii=False)))
    return recorder, facts, start


def _failed(begun: tuple[Recorder, dict[str, Any], int], _: Exception) -> None:
    _ends(begun, FAILED)


def _ends(begun: tuple[Recorder, dict[str, Any], int], how: int) -> None:
    recorder, facts, start = begun
    recorder.note(Kind.GROUP, 0, start, clock() - start, recorder.intern(json.dumps(facts, ensure_ascii=False)), how)


def _made(module: ModuleType, recorder: Recorder | None, facts: dict[str, Any] | None, start: int) -> None:
    if recorder is None:
        return
    begun = start or clock()
    known = dict(facts or {})
    ranks.known.rank = known["rank"] = module.get_rank()
    ranks.known.world = known["world"] = module.get_world_size()
    known["backend"] = str(module.get_backend())
    known["timeout"] = _timeout(module)
    known["variables"] = {
        name: redacted(os.environ[name])[:200] for name in sorted(KEPT_VARIABLES) if name in os.environ
    }
    ranks.write_rank(recorder)
    _ends((recorder, known, begun), MADE)
    flight.ready(recorder)
    stacks.keep_crashes_of_main()


def _timeout(module: ModuleType) -> float | None:
    """Seconds after which its collectives give up. Only torch knows what it is where nobody has said."""
    group = module._get_default_group()
    for device in getattr(group, "_device_types", ()):
        options = getattr(group._get_backend(device), "options", None)
        timeout = getattr(options, "_timeout", None)
        if timeout is not None:
            return float(timeout.total_seconds())
    return None


def _plain(value: object) -> str:
    return "" if value is None else str(value) if isinstance(value, str) else type(value).__name__


def _or_variable(given: object, name: str) -> int | None:
    if type(given) is int and given >= 0:
        return given
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def _address(given: dict[str, Any]) -> str:
    method = given.get("init_method")
    if isinstance(method, str) and method != "env://":
        return method
    if given.get("store") is not None:
        return type(given["store"]).__name__
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    return f"{host}:{port}" if host else ""
