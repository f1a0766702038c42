"""Finds `while len(buffer) < needed` in a function's bytecode, and what these names stand for in a running call.

Works on the bytecode of Python 3.10 and later: instructions differ, what they push and take does not.
"""

from __future__ import annotations

import dis
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .holdings import attributes_of
from .variables import variables

LONGEST = 24  # instructions of a condition
MOST = 20_000  # bytes of code: a larger function is not looked at
ARITHMETIC = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__}
OLD = {"BINARY_ADD": "+", "BINARY_SUBTRACT": "-", "BINARY_MULTIPLY": "*", "BINARY_FLOOR_DIVIDE": "//"}
NOISE = ("CACHE", "PRECALL", "EXTENDED_ARG", "NOP", "PUSH_NULL", "RESUME", "COPY_FREE_VARS", "NOT_TAKEN", "TO_BOOL")
LOCAL = ("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_CLASSDEREF")
PAIR = ("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
LESS = ("<", "<=", "!=")
UNKNOWN: Any = object()

Term = tuple[
    Any, ...
]  # ("local", name), ("global", name), ("attribute", term, name), ("const", value), ("len", term), …


class Filling(NamedTuple):
    """A loop that goes on until the buffer is as long as needed."""

    buffer: Term
    need: Term
    name: str
    begin: int  # of the loop in the code, and its end
    end: int


def fillings(code: CodeType) -> tuple[Filling, ...]:
    """Those of one function, each once: Python writes a loop's condition down twice."""
    if "len" not in code.co_names or len(code.co_code) > MOST:
        return ()
    steps = [part for one in dis.get_instructions(code) if one.opname not in NOISE for part in _apart(one)]
    compared = [at for at, one in enumerate(steps) if _compares(one)]
    sure, found = ([_filling(steps, at, jump(steps, at)) for at in compared] for jump in (_near, _to_its_line))
    known = {(one.buffer, one.need): one for one in (*found, *sure) if one is not None}
    return tuple(known.values())


def _apart(one: dis.Instruction) -> list[dis.Instruction]:
    """Python 3.13 may load two locals by one instruction."""
    if one.opname not in PAIR:
        return [one]
    return [one._replace(opname="LOAD_FAST", argval=name) for name in one.argval]


def _compares(one: dis.Instruction) -> bool:
    return one.opname == "COMPARE_OP" and _operator(one) in (*LESS, ">", ">=")


def _operator(one: dis.Instruction) -> str:
    return str(one.argrepr).removeprefix("bool(").removesuffix(")")


def _filling(steps: list[dis.Instruction], at: int, back: dis.Instruction | None) -> Filling | None:
    if back is None:
        return None
    right, at_left = _term(steps, at - 1)
    left, _ = _term(steps, at_left)
    if _operator(steps[at]) not in LESS:
        left, right = right, left
    if left is None or right is None or left[0] != "len" or left[1][0] not in ("local", "global", "attribute"):
        return None
    begin = min(steps[at].offset, back.argval)
    return Filling(left[1], right, str(left[1][-1]), begin, max(steps[at].offset, back.offset))


def _near(steps: list[dis.Instruction], at: int) -> dis.Instruction | None:
    """A loop's condition is written down again at its end: the jump behind it, or the next, goes back to its body."""
    return next((one for one in steps[at + 1 : at + 3] if _goes_back(one)), None)


def _to_its_line(steps: list[dis.Instruction], at: int) -> dis.Instruction | None:
    """From Python 3.14 on it is not: a jump further on goes back to the condition. So does that of `if … continue`."""
    begins = {one.offset for one in steps[max(at - LONGEST, 0) : at] if one.starts_line}
    return next((one for one in reversed(steps[at + 1 :]) if _goes_back(one) and one.argval in begins), None)


def _goes_back(one: dis.Instruction) -> bool:
    return "JUMP" in one.opname and isinstance(one.argval, int) and one.argval < one.offset


def _term(steps: list[dis.Instruction], at: int) -> tuple[Term | None, int]:  # noqa: PLR0911  (one for each kind)
    """What the instructions up to this one push as one value, and where those before them end."""
    if at < 0:
        return None, at
    one = steps[at]
    name = one.opname
    if name in LOCAL or name == "LOAD_NAME":
        return ("global" if name == "LOAD_NAME" else "local", one.argval), at - 1
    if name == "LOAD_GLOBAL":
        return ("global", one.argval), at - 1
    if name in ("LOAD_CONST", "LOAD_SMALL_INT"):
        return ("const", one.argval), at - 1
    if name == "LOAD_ATTR":
        inner, before = _term(steps, at - 1)
        return (None if inner is None else ("attribute", inner, one.argval)), before
    if name == "BINARY_OP" or name in OLD:
        return _arithmetic(steps, at, OLD.get(name) or str(one.argrepr))
    if name in ("CALL", "CALL_FUNCTION") and one.arg == 1:
        inner, before = _term(steps, at - 1)
        called, before = _term(steps, before)
        return (("len", inner) if called == ("global", "len") and inner is not None else None), before
    return None, at - 1


def _arithmetic(steps: list[dis.Instruction], at: int, operator: str) -> tuple[Term | None, int]:
    right, before = _term(steps, at - 1)
    left, before = _term(steps, before)
    if left is None or right is None or operator not in ARITHMETIC:
        return None, before
    return ("number", operator, left, right), before


def value_of(term: Term, frame: FrameType) -> Any:
    """Its value in this call. No descriptor, no `__getattr__` and no arithmetic but that of plain numbers is run."""
    kind = term[0]
    if kind == "const":
        return term[1]
    if kind == "global":
        return frame.f_globals.get(term[1], UNKNOWN)
    if kind == "local":
        return variables(frame).get(term[1], UNKNOWN)
    if kind == "attribute":
        return attributes_of(value_of(term[1], frame)).get(term[2], UNKNOWN)
    if kind == "number":
        left, right = value_of(term[2], frame), value_of(term[3], frame)
        plain = type(left) is int and type(right) is int and (right or term[1] != "//")
        return ARITHMETIC[term[1]](left, right) if plain else UNKNOWN
    return UNKNOWN
