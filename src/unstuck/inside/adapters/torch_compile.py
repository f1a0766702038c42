"""`torch.compile`: which function was compiled, how long it took, and why it had to be compiled again.

torch has callbacks for the begin and the end, but none that tells the function or the reason. So the one function is
wrapped that every compilation goes through, and what it asks on its way: the guards that failed, and whether there were
too many. Their names differ between versions of torch (tried: 2.13); what is missing is left out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from types import CodeType, FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, around, replace, together
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import H_ROLE, ROLE_MAIN, Kind

MODULES = ("torch._dynamo.convert_frame",)
OWES = (Kind.COMPILED,)
REASONS = ("get_and_maybe_log_recompilation_reasons", "get_and_maybe_log_recompilation_reason")  # newer, older
LIMITS = ("exceeds_recompile_limit", "exceeds_cache_size_limit")  # newer, older
NOTED = 500  # compilations that are told one by one
LONGEST = 400  # characters of a reason


class Compiling:
    """What is known of the compilation that goes on. torch has a lock around it: there is one at a time.

    Up to torch 2.3 the guards and the limit are asked for right before it, and it does not come if there were too many.
    """

    def __init__(self) -> None:
        self.code: object = None  # of the function whose guards failed
        self.reasons: object = None
        self.limited = False
        self.count = 0
        self.depth = 0


def install(module: ModuleType, guard: Guard) -> Undo:
    wanted = {"_compile": _compile, **dict.fromkeys(REASONS, _reasons), **dict.fromkeys(LIMITS, _limits)}
    known = {name: make for name, make in wanted.items() if name in vars(module)}
    return together(*(replace(module, name, functools.partial(make, guard=guard)) for name, make in known.items()))


def _compile(original: Any, guard: Guard) -> Any:
    """It ends also where it is given up, which is the rule when there is nothing to compile."""
    return around(original, guard, _begins, leave=guard.quietly)


def _begins(_frame: FrameType, args: Any, kwargs: Any) -> Callable[[], None] | None:
    """How it is ended. None when nothing records, in a worker, and inside another one."""
    recorder = process.recorder
    if recorder is None or recorder.words[H_ROLE] != ROLE_MAIN or _now.depth:
        return None
    _now.limited, _now.depth = False, 1
    start = clock()
    recorder.board(recorder.board_slot(Kind.COMPILED), Kind.COMPILED, 0, start, 1)
    return functools.partial(_ends, args[0] if args else kwargs.get("code"), start)


def _ends(code: object, start: int) -> None:
    _now.depth = 0
    recorder = process.recorder
    if recorder is None:
        return
    now = clock()
    recorder.total(recorder.total_slot(Kind.COMPILED), now - start)
    _note(recorder, code, start, now - start)
    recorder.board(recorder.board_slot(Kind.COMPILED), Kind.COMPILED, 0, 0)
    recorder.cost(clock() - now)


def _note(recorder: Recorder, code: object, start: int, took: int) -> None:
    if _now.count < NOTED and isinstance(code, CodeType):
        _now.count += 1
        recorder.note(Kind.COMPILED, 0, start, took, _facts(recorder, code))
    _now.code = _now.reasons = None


def _facts(recorder: Recorder, code: CodeType) -> int:
    known = {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name}
    if _now.code == code:  # its guards failed
        found = _now.reasons[:1] if isinstance(_now.reasons, (list, tuple)) else [_now.reasons]
        known["reason"] = str(found[0])[:LONGEST] if found and found[0] else "one of its guards"
    known["limited"] = _now.limited
    return recorder.intern(json.dumps(known, ensure_ascii=False))


def _reasons(original: Any, guard: Guard) -> Any:
    return after(original, guard, _keep_reasons)


def _keep_reasons(_frame: FrameType, args: Any, kwargs: Any, found: object) -> None:
    frame = args[1] if len(args) > 1 else kwargs.get("frame")
    _now.code, _now.reasons = getattr(frame, "f_code", None), found


def _limits(original: Any, guard: Guard) -> Any:
    return after(original, guard, _keep_limit)


def _keep_limit(_frame: FrameType, _args: Any, _kwargs: Any, found: object) -> None:
    exceeded = found[0] if isinstance(found, tuple) and found else found
    _now.limited = exceeded is True
    recorder = process.recorder
    if _now.limited and not _now.depth and recorder is not None and recorder.words[H_ROLE] == ROLE_MAIN:
        _note(recorder, _now.code, clock(), 0)


_now = Compiling()
