"""The one wrapper of calls: what is begun is ended, whatever the call does, and nobody sees that it is there."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import pytest

from unstuck.inside.core.guard import Guard, after, around, replace

Happened = list[tuple[Any, ...]]


def library(call: Any) -> ModuleType:
    module = ModuleType("library")
    module.call = call  # type: ignore[attr-defined]
    return module


def wrapped(call: Any, happened: Happened, begun: object = "begun") -> Any:
    """The call as a library has it, with a wrapper around it that tells what happened."""
    module = library(call)

    def make(original: Any) -> Any:
        return around(
            original,
            Guard("test", lambda *_: None),
            lambda frame, args, kwargs: happened.append(("begin", frame.f_code.co_name, args, kwargs)) or begun,
            end=lambda begun: happened.append(("end", begun)),
            measure=lambda begun, args, kwargs, result: happened.append(("measure", begun, args, kwargs, result)),
            fail=lambda begun, error: happened.append(("fail", begun, error)),
            leave=lambda begun: happened.append(("leave", begun)),
        )

    replace(module, "call", make)
    return module.call


def test_a_call_that_returns_is_begun_ended_measured_and_left() -> None:
    happened: Happened = []
    call = wrapped(lambda one, *, two: one + two, happened)

    assert call(1, two=2) == 3

    here = sys._getframe().f_code.co_name
    given = ((1,), {"two": 2})
    assert happened == [("begin", here, *given), ("end", "begun"), ("measure", "begun", *given, 3), ("leave", "begun")]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_call_raises_goes_on_as_it_is(kind: type[BaseException]) -> None:
    happened: Happened = []
    error = kind("theirs")

    def fails() -> None:
        raise error

    with pytest.raises(kind) as raised:
        wrapped(fails, happened)()

    assert raised.value is error
    failed = [("fail", "begun", error)] if isinstance(error, Exception) else []
    assert happened[1:] == [*failed, ("leave", "begun")]


def test_none_of_our_frames_lies_in_the_traceback_of_an_exception() -> None:
    def fails() -> None:
        raise ValueError("theirs")

    with pytest.raises(ValueError, match="theirs") as raised:
        wrapped(fails, [])()

    files = [entry.frame.code.path for entry in raised.traceback]
    assert sys.version_info < (3, 11) or not [file for file in files if "guard.py" in str(file)]


def test_where_nothing_was_begun_nothing_else_happens() -> None:
    happened: Happened = []
    assert wrapped(lambda: "result", happened, begun=None)() == "result"
    assert [what for what, *_ in happened] == ["begin"]


def test_a_wrapper_looks_like_what_it_is_around() -> None:
    def call(one: int, two: str = "x") -> str:
        """Says so."""
        return two * one

    found = wrapped(call, [])

    assert found.__wrapped__ is call
    assert (found.__name__, found.__doc__, found.__module__) == ("call", "Says so.", __name__)
    assert inspect.signature(found) == inspect.signature(found, follow_wrapped=False) == inspect.signature(call)


def test_a_generator_and_a_coroutine_are_handed_on_as_they_are() -> None:
    async def answers() -> int:
        return 1

    def counts() -> Any:
        yield 1

    coroutine = wrapped(answers, [])()
    assert inspect.iscoroutine(coroutine)
    coroutine.close()
    assert list(wrapped(counts, [])()) == [1]


def test_after_a_call_that_returned_it_is_told_and_after_no_other() -> None:
    told: Happened = []

    def call(value: int) -> int:
        return 1 // value

    module = library(call)
    replace(module, "call", lambda original: after(original, Guard("test", print), lambda *given: told.append(given)))
    assert module.call(1) == 1
    with pytest.raises(ZeroDivisionError):
        module.call(0)

    ((frame, *rest),) = told
    assert (frame.f_code.co_name, rest) == (sys._getframe().f_code.co_name, [(1,), {}, 1])
