"""Tells our own failures from everything else that may fly through our frames, and puts wrappers in place and back.

Signal handlers raise inside whatever Python frame is running, ours too. So an `Exception` is ours only if it was raised
in this folder, or by the standard library while doing something for it; all others belong to the user and go on.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # all of `inside`
STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep

Undo = Callable[[], None]


def is_library(file: str) -> bool:
    """Neither the user's own code nor a notebook's: installed, standard, compiled by Cython, or ours."""
    return is_installed(file) or file.startswith((HERE, STANDARD, "<frozen ")) or is_compiled(file)


def is_compiled(file: str) -> bool:
    """Cython names the source by a path in somebody else's tree: pyarrow/error.pxi."""
    return file.endswith((".pyx", ".pxi", ".pxd")) and not os.path.isabs(file)


def is_installed(file: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file


def is_ours(error: BaseException) -> bool:
    ours = False
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(HERE):
            ours = True
        elif is_installed(file) or not file.startswith((STANDARD, "<frozen ")):
            ours = False
        trace = trace.tb_next
    return ours


def without_us(trace: TracebackType | None) -> TracebackType | None:
    """A traceback with our frames taken out. Followed by a bare `raise` it keeps them out (from Python 3.11 on)."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(HERE):
        trace = trace.tb_next
    kept = trace
    while kept is not None and kept.tb_next is not None:
        if kept.tb_next.tb_frame.f_code.co_filename.startswith(HERE):
            kept.tb_next = kept.tb_next.tb_next
        else:
            kept = kept.tb_next
    return trace


def clean(error: BaseException) -> None:
    error.__traceback__ = without_us(error.__traceback__)


class Guard:
    """One adapter's licence to run: withdrawn at its first failure of its own."""

    def __init__(self, name: str, report: Callable[[str, BaseException], None]) -> None:
        self.name = name
        self.undo: Callable[[], None] | None = None
        self._report = report

    def theirs(self, error: Exception) -> bool:
        """In an `except` block: True means `raise`, it is none of ours. If it is, the adapter has been undone."""
        if not is_ours(error):
            clean(error)
            return True
        undo, self.undo = self.undo, None
        if undo is not None:
            undo()
            quietly(self._report, self.name, error)
        return False

    def quietly(self, call: Callable[..., object], *args: object) -> None:
        """Run a step of our own that is not on a hot path."""
        try:
            call(*args)
        except Exception as error:
            if self.theirs(error):
                raise

    def result(self, call: Callable[..., T], *args: object) -> T | None:
        """As `quietly`, for what it gives; None if it failed."""
        try:
            return call(*args)
        except Exception as error:
            if self.theirs(error):
                raise
        return None


def quietly(call: Callable[..., object], *args: object) -> None:
    """As `Guard.quietly`, where no adapter can be undone."""
    try:
        call(*args)
    except Exception as error:
        if not is_ours(error):
            clean(error)
            raise


def around(
    original: Any,
    guard: Guard,
    begin: Callable[..., Any],
    *,
    end: Callable[[Any], object] | None = None,
    measure: Callable[..., object] | None = None,
    fail: Callable[[Any, Exception], object] | None = None,
    leave: Callable[[Any], object] | None = None,
) -> Any:
    """The wrapper of a call that is recorded: what is begun before the call is ended after it, however that goes.

    `begin(frame, args, kwargs)`, with the caller's frame, gives what was begun; if it gives None, no more happens.
    After a call that returned come `end(begun)` and `measure(begun, args, kwargs, result)`, after one that an
    `Exception` left `fail(begun, error)`. `leave(begun)` comes last, also after Ctrl-C; alone of them it is unguarded.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        begun = guard.result(begin, sys._getframe(1), args, kwargs)
        if begun is None:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                clean(error)
                raise
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            if fail is not None:
                guard.quietly(fail, begun, error)
            clean(error)
            raise
        else:
            if end is not None:
                guard.quietly(end, begun)
            if measure is not None:
                guard.quietly(measure, begun, args, kwargs, result)
            return result
        finally:
            if leave is not None:
                leave(begun)

    return call


def after(original: Any, guard: Guard, tell: Callable[..., object]) -> Any:
    """The wrapper of a call of which only that it returned is of interest: `tell(frame, args, kwargs, result)`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        guard.quietly(tell, sys._getframe(1), args, kwargs, result)
        return result

    return call


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> Undo:
    """Put `make(original)` where the original was. The undo leaves alone what somebody else has put there since."""
    namespace = vars(owner)
    if name not in namespace:
        return lambda: None
    original = namespace[name]
    called = original.__func__ if isinstance(original, (staticmethod, classmethod)) else original
    wrapper = make(called)
    if not hasattr(wrapper, "__wrapped__"):  # else it is the wrapper of the same under another name
        wrapper = functools.update_wrapper(wrapper, called)
    _looks_like(called, wrapper)
    placed = type(original)(wrapper) if called is not original else wrapper
    setattr(owner, name, placed)

    def undo() -> None:
        if vars(owner).get(name) is placed:
            setattr(owner, name, original)

    return undo


def _looks_like(original: Any, wrapper: Any) -> None:
    """As far as it goes: who asks for arguments without following `__wrapped__`, as getfullargspec does, gets them too.

    `__code__` stays the wrapper's own. Constructors show their defaults as well: frameworks make loaders again by them.
    """
    if not isinstance(original, FunctionType) or not isinstance(wrapper, FunctionType):
        return
    if "__signature__" not in vars(wrapper):
        wrapper.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    if original.__name__ == "__init__" and wrapper.__code__.co_flags & inspect.CO_VARARGS:
        wrapper.__defaults__, wrapper.__kwdefaults__ = original.__defaults__, original.__kwdefaults__


def replace_everywhere(module: Any, name: str, make: Callable[[Any], Any]) -> Undo:
    """The same, and in all modules that have taken it over by its name."""
    original = vars(module).get(name)
    undo = replace(module, name, make)
    if original is None:
        return undo
    wrapper = vars(module)[name]
    modules = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType) and one is not module]
    others = [one for one in modules if vars(one).get(name) is original]
    return together(undo, *(replace(one, name, lambda _: wrapper) for one in others))


def together(*undos: Undo) -> Undo:
    def undo() -> None:
        for one in undos:
            one()

    return undo
