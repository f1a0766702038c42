"""What is kept of an exception: type, message, frames, the sample and the files it was about."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from . import format as f
from .exits import note_dead_workers
from .guard import HERE, clean, is_library, quietly
from .holdings import attributes_of
from .limits import used_up
from .process import process
from .recorder import clock

MESSAGE_LENGTH = 1500
FRAMES = 24
PATHS = 3


def keep(error: BaseException, how: str, trace: TracebackType | None = None, **facts: Any) -> None:
    """Write an exception down among this process's last words: the first one, and the newest two.

    A worker goes on after an exception and may raise again before its main process has ended by the first.
    """
    recorder = process.recording()
    if recorder is None:
        return
    recorder.note(f.Kind.EXCEPTION, 0, clock(), 0, recorder.intern(type(error).__name__))
    known = describe(error, how, {**remembered(error), **facts}, trace)
    process.said = [*process.said[:1], *process.said[1:][-1:], json.dumps(known, ensure_ascii=False)]
    while not recorder.last_words(f"[{','.join(process.said)}]"):
        if len(process.said) > 1:
            del process.said[-2]
        elif known.pop("indices", None):
            process.said = [json.dumps(known, ensure_ascii=False)]
        else:
            return


def describe(
    error: BaseException, how: str, facts: dict[str, Any], trace: TracebackType | None = None
) -> dict[str, Any]:
    """`trace`: as it was when nobody caught it. A library may raise the same object again in a thread of its own."""
    frames = list(_frames(trace or error.__traceback__))
    known: dict[str, Any] = {
        "how": how,
        "at": clock(),
        "thread": threading.current_thread().name,
        "type": type(error).__name__,
        "message": message_of(error),
        "frames": [
            {"file": frame.f_code.co_filename, "line": line, "function": frame.f_code.co_name} for frame, line in frames
        ][-FRAMES:],
        "causes": _causes(error),
        "paths": _paths(error, [frame for frame, _ in frames], everywhere="position" in facts),
        "shm": _shm(),
        **used_up(_chain(error), [message_of(one) for one in _chain(error)]),
    }
    known.update(facts)
    return known


def message_of(error: BaseException) -> str:
    """The message, or both ends of it: a worker's exception reaches the main process with a traceback inside."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (the user's own __str__ fails; torch and Python shrug at the same place)
        text = "<no message: str() failed>"
    if len(text) <= MESSAGE_LENGTH:
        return text
    half = MESSAGE_LENGTH // 2
    return f"{text[:half]} … {text[-half:]}"


def _frames(trace: TracebackType | None) -> Any:
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(HERE):
            yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _chain(error: BaseException) -> list[BaseException]:
    """The error, what led to it, and so on."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and len(chain) < 5 and id(following) not in [id(one) for one in chain]:
        chain.append(following)
        following = following.__cause__ or following.__context__
    return chain


def _causes(error: BaseException) -> list[dict[str, str]]:
    return [{"type": type(one).__name__, "message": message_of(one)[:300]} for one in _chain(error)[1:]]


def _paths(error: BaseException, frames: list[FrameType], *, everywhere: bool) -> list[str]:
    """Files the error may be about: the one it names, then those the innermost frames hold. Nothing is opened.

    All frames of a fetch are about its sample. Elsewhere only those of the libraries that the user's line called are:
    in its own lie the program's folders.
    """
    found: list[str] = []
    candidates: list[object] = [error.filename] if isinstance(error, OSError) else []
    for frame in reversed(frames):
        if not everywhere and not is_library(frame.f_code.co_filename):
            break
        candidates += list(frame.f_locals.values())[:60]
    for candidate in candidates:
        path = _as_path(candidate)
        if path and path not in found:
            found.append(path)
        if len(found) == PATHS:
            break
    return found


def _as_path(value: object) -> str | None:
    if isinstance(value, os.PathLike) and type(value).__module__.startswith("pathlib"):
        value = os.fspath(value)
    elif type(value).__module__ in ("_io", "tarfile", "zipfile", "gzip"):
        value = getattr(value, "name", None)
    elif type(value).__module__.startswith("PIL."):
        value = attributes_of(value).get("filename")
    if isinstance(value, bytes):
        value = os.fsdecode(value)
    if type(value) is not str or not 1 < len(value) < 400 or os.sep not in value or not value.isprintable():
        return None
    is_code = value.endswith((".py", ".so", ".pyc")) or value.startswith(sys.prefix) or " " * 2 in value
    return None if is_code or not os.path.basename(value) else value


def _shm() -> list[int] | None:
    """Size and free bytes of /dev/shm at this moment, as this process sees it."""
    try:
        disk = os.statvfs("/dev/shm")
    except OSError:
        return None
    return [disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize]


def install_hooks() -> None:
    """Uncaught exceptions of the main thread and of threads, on their way to whoever prints them."""
    _wrap_main_hook()
    _wrap_thread_hook()
    atexit.register(quietly, _at_exit)


def _wrap_main_hook() -> None:
    original = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if trace is error.__traceback__:
            clean(error)
            trace = error.__traceback__
        quietly(uncaught, error, trace)
        original(kind, error, trace)

    sys.excepthook = excepthook


def _wrap_thread_hook() -> None:
    original = threading.excepthook

    def excepthook(arguments: Any) -> None:
        if arguments.exc_value is not None:
            quietly(keep, arguments.exc_value, "thread")
        original(arguments)

    threading.excepthook = excepthook


def _at_exit() -> None:
    """The same where somebody has put another hook in the place of ours: Python remembers what it printed last."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if isinstance(error, BaseException) and not hasattr(sys, "ps1") and identity(error) != process.ended_by:
        uncaught(error, getattr(sys, "last_traceback", None))


def uncaught(error: BaseException, trace: TracebackType | None = None) -> None:
    """The exception that ends the program, with what was remembered of it where it was raised."""
    if not isinstance(error, SystemExit):
        process.ended_by = identity(error)
        note_dead_workers()
        keep(error, "uncaught", trace)


def remember(error: BaseException, facts: dict[str, Any]) -> None:
    """Facts about an exception that may or may not end the program. Nothing is put on the object, nor is it kept."""
    known = _failures.get(identity(error), {})
    _failures.clear()
    _failures[identity(error)] = {**facts, **known}


def remembered(error: BaseException) -> dict[str, Any]:
    following: BaseException | None = error
    for _ in range(6):
        if following is None:
            break
        found = _failures.get(identity(following))
        if found is not None:
            return found
        following = following.__cause__ or following.__context__
    return {}


def identity(error: BaseException) -> tuple[object, ...]:
    """An address is soon another exception's, and most take no weak reference: where it was raised counts too."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (id(error), type(error), trace and trace.tb_frame.f_code, trace and trace.tb_lasti)


_failures: dict[tuple[object, ...], dict[str, Any]] = {}
