"""What is kept of an exception: type, message, frames, the sample and the files it was about, what was used up."""

from __future__ import annotations

import atexit
import errno
import functools
import json
import os
import re
import resource
import stat
import sys
import threading
import time
from itertools import pairwise
from types import FrameType, TracebackType
from typing import Any

from .. import format as f
from ..core import versions
from ..core.frames import variables
from ..core.guard import HERE, clean, is_library, quietly, replace
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import clock
from ..redaction import redacted
from .exits import note_dead_workers

MESSAGE_LENGTH = 1500
FRAMES = 24
PATHS = 3
ASKED = 8  # texts of which it is asked whether they are files
ADDRESS = re.compile(r"(?:https?|s3|gs|gcs|az|abfss?|hdfs|hf|oss|r2)://\S+")  # where data lies
DEAF = (errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.EREMOTEIO)
PLAIN = (str, bytes, int, float, bool, type(None))
TEXTS = ("__str__", "__repr__")
HANDLED = "exit"  # how an exception is kept that the program has caught when it calls sys.exit
DEEP, MANY = 4, 64  # of what an exception holds, as far as it is looked at

MANY_DESCRIPTORS = 4096  # descriptors that are looked at
SHOWN = 8
SHM = "/dev/shm"
# By the number that an OSError carries, and by what torch's own texts say of the same.
WORDS = {
    errno.EMFILE: ("Too many open files", "received 0 items of ancdata"),
    errno.ENOMEM: ("Cannot allocate memory", "unable to mmap"),
    errno.ENOSPC: ("No space left on device",),
}


def keep(error: BaseException, how: str, trace: TracebackType | None = None, **facts: Any) -> None:
    """Write an exception down among this process's last words: the first one, and the newest two.

    A worker goes on after an exception and may raise again before its main process has ended by the first.
    """
    recorder = process.recording()
    if recorder is None:
        return
    if recorder.words[f.H_ROLE] == f.ROLE_MAIN:
        versions.tell(recorder)
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
    chain = _chain(error)
    text = message_of if how == HANDLED else last_message_of
    messages = [text(one) for one in chain]
    known: dict[str, Any] = {
        "how": how,
        "at": clock(),
        "thread": threading.current_thread().name,
        "type": type(error).__name__,
        "message": messages[0],
        "frames": [
            {"file": frame.f_code.co_filename, "line": line, "function": frame.f_code.co_name}
            for frame, line in _kept(frames)
        ],
        "causes": [
            {"type": type(one).__name__, "message": message[:300]}
            for one, message in zip(chain[1:], messages[1:], strict=True)
        ],
        "paths": _paths_of(chain, frames, everywhere="position" in facts),
        "shm": _shm(),
        **used_up(chain, messages),
    }
    known.update(facts)
    return known


def message_of(error: BaseException) -> str:
    """The message of one that may yet be caught: nobody else may ask for its text, so no `__str__` of his is called."""
    if _speaks_for_itself(error):
        return last_message_of(error)
    words = [one if type(one) is str else repr(one) for one in _arguments(error) if type(one) in PLAIN]
    return _shortened(redacted(", ".join(words)))


def _speaks_for_itself(error: BaseException, depth: int = 0) -> bool:
    """Its text is made by Python or a library, out of plain values."""
    given = list(_arguments(error))
    if isinstance(error, OSError):
        given += [error.filename, error.filename2]
    return _is_librarys(error, *TEXTS) and len(given) <= MANY and all(_is_plain(one, depth + 1) for one in given)


def _is_plain(value: Any, depth: int) -> bool:
    """Also exceptions of other ranks and their stacks, which torch.distributed.checkpoint puts into its own."""
    kind = type(value)
    if kind in PLAIN or kind.__module__ in ("traceback", "pathlib"):
        return True
    if depth > DEEP or (kind in (list, tuple, dict) and len(value) > MANY):
        return False
    if kind in (list, tuple):
        return all(_is_plain(one, depth + 1) for one in value)
    if kind is dict:
        return all(_is_plain(one, depth + 1) for both in value.items() for one in both)
    if issubclass(kind, BaseException):
        return _speaks_for_itself(value, depth)
    return issubclass(kind, str) and _is_librarys(value, *TEXTS)


def _arguments(error: BaseException) -> tuple[Any, ...]:
    found: tuple[Any, ...] = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    return found


def _is_librarys(value: object, *methods: str) -> bool:
    for name in methods:
        owner = next(one for one in type(value).__mro__ if name in vars(one))
        code = getattr(vars(owner)[name], "__code__", None)
        if code is not None and not is_library(code.co_filename):
            return False
    return True


def last_message_of(error: BaseException) -> str:
    """Of one that ends the process or leaves the worker: Python or torch asks for its text as well."""
    try:
        text = redacted(str(error))  # before it is cut: half a secret has no shape
    except Exception:  # noqa: BLE001  (the user's own __str__ fails; torch and Python shrug at the same place)
        text = "<no message: str() failed>"
    return _shortened(text)


def _shortened(text: str) -> str:
    """Both ends of it: a worker's exception reaches the main process with a traceback inside."""
    if len(text) <= MESSAGE_LENGTH:
        return text
    half = MESSAGE_LENGTH // 2
    return f"{text[:half]} … {text[-half:]}"


def _frames(trace: TracebackType | None) -> Any:
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(HERE):
            yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _kept(frames: list[tuple[FrameType, int]]) -> list[tuple[FrameType, int]]:
    """The innermost, and the innermost of the user's own: below it may lie more calls of libraries than are kept."""
    kept = frames[-FRAMES:]
    users = [one for one in frames if not is_library(one[0].f_code.co_filename)]
    return kept if not users or users[-1] in kept else [users[-1], *kept[1:]]


def _chain(error: BaseException) -> list[BaseException]:
    """The error, what led to it, and so on."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and len(chain) < 5 and id(following) not in [id(one) for one in chain]:
        chain.append(following)
        following = _before(following)
    return chain


def _before(error: BaseException) -> BaseException | None:
    """What led to it. No truth value is asked for: an exception of the user's may have one of its own."""
    return error.__context__ if error.__cause__ is None else error.__cause__


def _paths_of(chain: list[BaseException], frames: list[tuple[FrameType, int]], *, everywhere: bool) -> list[str]:
    """Of the exception that others were made from, if there is one: it knows more of the file than they do."""
    causes = [error for before, error in pairwise(chain) if before.__cause__ is error]
    for error in (*reversed(causes), chain[0]):
        own = frames if error is chain[0] else list(_frames(error.__traceback__))
        found = _paths(error, [frame for frame, _ in own], everywhere=everywhere)
        if found:
            return found
    return []


def _paths(error: BaseException, frames: list[FrameType], *, everywhere: bool) -> list[str]:
    """Files the error may be about: the one it names, then those the innermost frames hold. Nothing is opened.

    All frames of a fetch are about its sample. Elsewhere only those of the libraries that the user's line called are:
    in its own lie the program's folders. Any text may look like a path: it is one if it is a file that is there, and
    counts where no file was open. Storage that does not answer is not asked.
    """
    named = [_printable(one) for one in (error.filename, error.filename2)] if isinstance(error, OSError) else []
    opened, others = [one for one in named if one], list[str]()
    for frame in reversed(frames):
        if not everywhere and not is_library(frame.f_code.co_filename):
            break
        for value in list(variables(frame).values())[:60]:
            name, path = _opened(value), _as_path(value)
            opened += [name] if name else []
            others += [path] if path else []
    found = list(dict.fromkeys(opened))
    if not found and not _storage_failed(error):
        found = [one for one in list(dict.fromkeys(others))[:ASKED] if ADDRESS.match(one) or _is_file(one)]
    return found[:PATHS]


def _opened(value: object) -> str | None:
    """The name of a file that was opened, or of what lies in an archive."""
    if type(value).__module__ in ("_io", "tarfile", "zipfile", "gzip"):
        return _printable(getattr(value, "name", None))
    if type(value).__module__.startswith("PIL."):
        return _printable(attributes_of(value).get("filename"))
    return None


def _as_path(value: object) -> str | None:
    if isinstance(value, os.PathLike) and type(value).__module__.startswith("pathlib"):
        value = os.fspath(value)
    return _printable(value)


def _printable(value: object) -> str | None:
    if isinstance(value, bytes):
        value = os.fsdecode(value)
    if type(value) is not str or not 1 < len(value) < 400 or os.sep not in value or not value.isprintable():
        return None
    is_code = value.endswith((".py", ".so", ".pyc", ".lock")) or value.startswith(sys.prefix) or " " * 2 in value
    return None if is_code or not os.path.basename(value) else value


def _storage_failed(error: BaseException) -> bool:
    """To ask it again could take as long as it did before."""
    return any(isinstance(one, TimeoutError) or getattr(one, "errno", None) in DEAF for one in _chain(error))


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _shm() -> list[int] | None:
    """Size and free bytes of /dev/shm at this moment, as this process sees it."""
    try:
        disk = os.statvfs("/dev/shm")
    except OSError:
        return None
    return [disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize]


def install_hooks() -> None:
    """Uncaught exceptions of the main thread and of threads, on their way to whoever prints them.

    Where somebody puts another hook in the place of ours, Python still remembers the exception that it has printed, and
    the first thing that it calls afterwards is `threading._shutdown`.
    """
    _wrap_main_hook()
    _wrap_thread_hook()
    replace(sys, "exit", _before_exit)
    replace(threading, "_shutdown", _before_shutdown)
    atexit.register(quietly, _at_exit)
    os.register_at_fork(after_in_child=_leave_to_the_parent)


def _before_exit(original: Any) -> Any:
    """A program, or a library such as Hydra, catches an exception, prints it and leaves with a code of its own."""

    def exit(status: Any = None, /) -> None:  # noqa: A001  (it stands for that one)
        error = sys.exc_info()[1]
        if error is not None and type(status) is int and status and not isinstance(error, SystemExit):
            quietly(keep, error, HANDLED)
        original(status)

    return exit


def _before_shutdown(original: Any) -> Any:
    """Before threads are waited for, which may be for ever."""

    def _shutdown() -> None:
        quietly(_at_exit)
        original()

    return _shutdown


def _wrap_main_hook() -> None:
    original = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if trace is error.__traceback__:
            clean(error)
            trace = error.__traceback__
        quietly(uncaught, error, trace)
        original(kind, error, trace)

    _put(sys, original, excepthook)


def _wrap_thread_hook() -> None:
    original = threading.excepthook

    def excepthook(arguments: Any) -> None:
        if arguments.exc_value is not None:
            quietly(keep, arguments.exc_value, "thread")
        original(arguments)

    _put(threading, original, excepthook)


def _put(module: Any, original: Any, hook: Any) -> None:
    """Libraries look whether a hook is Python's own before they set theirs, and print with that one: it is ours, too.

    Without a hook there would be frames of ours in the traceback of every Ctrl-C, which no wrapper of ours catches.
    """
    functools.update_wrapper(hook, original)
    if getattr(module, "__excepthook__", None) is original:
        module.__excepthook__ = hook
    module.excepthook = hook


def _at_exit() -> None:
    """The exception that Python printed last, if it is not known yet."""
    error = getattr(sys, "last_value", None)
    if isinstance(error, BaseException) and not hasattr(sys, "ps1") and identity(error) != process.ended_by:
        uncaught(error, getattr(sys, "last_traceback", None))


def _leave_to_the_parent() -> None:
    error = getattr(sys, "last_value", None)
    process.ended_by = identity(error) if isinstance(error, BaseException) else ()


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
        following = _before(following)
    return {}


def identity(error: BaseException) -> tuple[object, ...]:
    """An address is soon another exception's, and most take no weak reference: where it was raised counts too."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (id(error), type(error), trace and trace.tb_frame.f_code, trace and trace.tb_lasti)


def used_up(errors: list[BaseException], messages: list[str]) -> dict[str, Any]:
    """Facts for the last words. Nothing here needs a descriptor that might not be had."""
    numbers = {one.errno for one in errors if isinstance(one, OSError)}
    told = {number for number, words in WORDS.items() if any(word in text for word in words for text in messages)}
    found: dict[str, Any] = {}
    if errno.EMFILE in numbers | told:
        found |= _descriptors()
    if errno.ENOMEM in numbers | told:
        found |= _mappings()
    if errno.ENOSPC in numbers | told:
        found |= _shared_memory()
    return found


def _descriptors() -> dict[str, Any]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    kinds: dict[str, int] = {}
    files: dict[str, int] = {}
    for number in range(min(limit, MANY_DESCRIPTORS)):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        kind = _kind(target)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kind == "file":
            files[target] = files.get(target, 0) + 1
    shown = sorted(files, key=lambda name: -files[name])[:SHOWN]
    return {"descriptors": kinds, "open_files": shown, "descriptor_limit": limit}


def _kind(target: str) -> str:
    if target.startswith(SHM) or "memfd:" in target:
        return "shared memory"
    for kind in ("socket", "pipe"):
        if target.startswith(f"{kind}:"):
            return kind
    return "file" if target.startswith("/") and not target.startswith("/dev/") else "other"


def _mappings() -> dict[str, Any]:
    try:
        with open("/proc/self/maps", "rb") as maps:
            number = sum(1 for _ in maps)
        with open("/proc/sys/vm/max_map_count", "rb") as limit:
            return {"maps": number, "maps_limit": int(limit.read())}
    except (OSError, ValueError):
        return {}


def _shared_memory() -> dict[str, Any]:
    """The largest files in /dev/shm. torch writes the pid of the process that made a file into its name."""
    now = time.time()
    found = []
    try:
        for entry in os.scandir(SHM):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found.append((status.st_blocks * 512, entry.name, max(now - status.st_mtime, 0.0)))
    except OSError:
        return {}
    largest = sorted(found, reverse=True)[:SHOWN]
    files = [{"name": name, "size": size, "age": round(age, 1), **_owner(name)} for size, name, age in largest]
    return {"shm_files": files, "shm_count": len(found)}


def _owner(name: str) -> dict[str, Any]:
    parts = name.split("_")
    if len(parts) < 3 or parts[0] != "torch" or not parts[1].isdigit():
        return {}
    return {"owner": int(parts[1]), "owner_alive": os.path.exists(f"/proc/{parts[1]}")}


_failures: dict[tuple[object, ...], dict[str, Any]] = {}
